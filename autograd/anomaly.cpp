#include <tapegrad/autograd/anomaly.hpp>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/jacobian.hpp>
#include <tapegrad/autograd/sweep.hpp>
#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/scope.hpp>

namespace tapegrad::autograd {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value && std::string_view(value) != "0";
}

/// "nan at [0, 2]" for the first element that is not finite, if there is one.
std::optional<std::string> fault_in(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return {};
  const core::Array array = tensor.body()->array.contiguous();
  return core::dispatch(array.dtype(), [&](auto type) -> std::optional<std::string> {
    using T = typename decltype(type)::type;
    const T* data = array.data<T>();
    for (std::int64_t i = 0; i < array.numel(); ++i)
      if (const double value = static_cast<double>(data[i]); !std::isfinite(value))
        return fmt::format("{} at {}", std::isnan(value) ? std::abs(value) : value,
                           element_name(array.shape(), static_cast<std::size_t>(i)));
    return {};
  });
}

/// "result and inputs" in words: "[2, 3] from inputs [2, 3] (already not finite) and [3]".
std::string shapes_of(const Tensor& result, const Inputs& inputs) {
  std::string text = result.shape().to_string() + (inputs.count() ? " from inputs" : "");
  for (int i = 0; i < inputs.count(); ++i) {
    text += (i ? ", " : " ") + inputs[i].shape().to_string();
    if (fault_in(inputs[i])) text += " (already not finite)";
  }
  return text;
}

std::string place_of(Entry& entry) {
  std::string inputs;
  for (int i = 0; i < entry.inputs(); ++i)
    if (entry.edge(i).entry() || entry.edge(i).leaf())
      inputs += fmt::format("{}{}", inputs.empty() ? " from inputs " : ", ", entry.edge(i).shape());
  return fmt::format("recorded as number {}{}{}, result {}{}", entry.number(),
                     entry.noted() ? UserLine::text(entry.notes()->line) : "",
                     entry.noted() && !entry.notes()->module.empty() ? " in " + entry.notes()->module : "",
                     entry.shape(), inputs);
}

[[noreturn]] void fail(Entry& entry, const std::string& what, const Shape& shape, const std::string& fault) {
  const std::string module = entry.noted() ? entry.notes()->module : "";
  std::optional<core::Scope> here;
  if (!module.empty()) here.emplace(module);
  throw NonFiniteError(
      fmt::format("{}: {} of shape {} must be finite; got {} ({}); look at the values that went into it", entry.name(),
                  what, shape, fault, place_of(entry)));
}

}  // namespace

const bool anomaly_in_environment = is_set("TAPEGRAD_ANOMALY") && ++UserLine::wanted > 0;

void check_value(const char* name, const Tensor& result, const Inputs& inputs, SourceLocation where) {
  if (running_entry()) return;  // what a gradient is computed by may pass through infinity: the gradient is checked
  const UserLine line(where);
  if (const auto fault = fault_in(result))
    throw NonFiniteError(
        fmt::format("{}: its result must be finite; got {}, result {}{}; look at the values of its inputs", name,
                    *fault, shapes_of(result, inputs), UserLine::text(UserLine::current())));
}

void note_place(Entry& entry, SourceLocation where) {
  const UserLine line(where);
  entry.notes()->module = core::Scope::path();
  entry.notes()->line = UserLine::current();
}

void check_gradient_value(Entry& entry, const Tensor& gradient) {
  if (const auto fault = fault_in(gradient))
    fail(entry, "the gradient of its result (given, from a hook, or a sum)", gradient.shape(), *fault);
}

void check_input_gradient(Entry& entry, int i, const Tensor& gradient) {
  if (const auto fault = fault_in(gradient))
    fail(entry, fmt::format("its gradient for input {}", i), gradient.shape(), *fault);
}

void check_leaf_gradient(const Tensor& gradient) {
  if (const auto fault = fault_in(gradient))
    throw NonFiniteError(
        fmt::format("backward: the gradient of a leaf of shape {} must be finite; got {}; look at its "
                    "hooks and at the operations that use it",
                    gradient.shape(), *fault));
}

}  // namespace tapegrad::autograd
