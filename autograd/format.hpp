// fmt::print("{}", x) for tensors, shapes, dtypes and reports.
#pragma once
#include <algorithm>

#include <fmt/core.h>

#include <tapegrad/autograd/explain.hpp>
#include <tapegrad/autograd/gradcheck.hpp>
#include <tapegrad/autograd/trace.hpp>

namespace tapegrad {

/// Formats anything through its to_string(); "{}" is the only form.
struct ToStringFormatter {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class T, class Context>
  auto format(const T& value, Context& context) const {
    const std::string text = value.to_string();
    return std::copy(text.begin(), text.end(), context.out());
  }
};

}  // namespace tapegrad

template <>
struct fmt::formatter<tapegrad::Shape> : tapegrad::ToStringFormatter {};
template <>
struct fmt::formatter<tapegrad::Tensor> : tapegrad::ToStringFormatter {};
template <>
struct fmt::formatter<tapegrad::autograd::GradcheckReport> : tapegrad::ToStringFormatter {};
template <>
struct fmt::formatter<tapegrad::autograd::Trace> : tapegrad::ToStringFormatter {};
template <>
struct fmt::formatter<tapegrad::autograd::Explanation> : tapegrad::ToStringFormatter {};
template <>
struct fmt::formatter<tapegrad::Dtype> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(tapegrad::Dtype dtype, Context& context) const {
    const std::string_view text = tapegrad::name_of(dtype);
    return std::copy(text.begin(), text.end(), context.out());
  }
};
