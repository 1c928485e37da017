// Gradient checks as expectations of a GoogleTest suite; <gtest/gtest.h> is for the suite to include.
#pragma once
#include <utility>

#include <tapegrad/autograd/gradcheck.hpp>

namespace tapegrad::autograd {

/// `f` called with as many tensors as there are inputs, or with all of them as Tensors.
template <class F, class... Inputs>
Function function_of(F f, const Inputs&...) {
  if constexpr (std::is_invocable_v<F&, const Inputs&...> && !std::is_invocable_v<F&, const Tensors&>)
    return [f = std::move(f)](const Tensors& in) mutable {
      return [&]<std::size_t... i>(std::index_sequence<i...>) { return f(in[i]...); }
      (std::index_sequence_for<Inputs...>());
    };
  else
    return Function(std::move(f));
}

/// The check that the macros below make.
template <class F, class... Inputs>
GradcheckReport checked(const char* name, bool twice, const F& f, const Inputs&... inputs) {
  const Function function = function_of(f, inputs...);
  GradcheckReport report = twice ? gradgradcheck(function, {inputs...}) : gradcheck(function, {inputs...});
  report.function = name;
  return report;
}

}  // namespace tapegrad::autograd

/// Expects that the gradients of `f` at these float64 inputs are right; a failure shows the whole report:
///
///     TEST(MyOperation, Gradient) { TAPEGRAD_GRADCHECK(softsign, tapegrad::randn({2, 5}, tapegrad::float64)); }
///
/// `f` takes the inputs one by one, or as one list (const Tensors&). More can be streamed: ... << "for this mask".
#define TAPEGRAD_GRADCHECK(f, ...) TAPEGRAD_EXPECT_CHECKED(f, false, __VA_ARGS__)
/// The same for gradients of gradients.
#define TAPEGRAD_GRADGRADCHECK(f, ...) TAPEGRAD_EXPECT_CHECKED(f, true, __VA_ARGS__)

// The switch keeps an `else` of the user from being taken for this one's.
#define TAPEGRAD_EXPECT_CHECKED(f, twice, ...)                                                                  \
  switch (0)                                                                                                    \
  case 0:                                                                                                       \
  default:                                                                                                      \
    if (const auto tapegrad_report = ::tapegrad::autograd::checked(#f, twice, f, __VA_ARGS__); tapegrad_report) \
      ;                                                                                                         \
    else                                                                                                        \
      ADD_FAILURE() << tapegrad_report.to_string()
