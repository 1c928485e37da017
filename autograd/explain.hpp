// Why a gradient is missing or zero.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::autograd {

enum class GradientReason {
  no_tape,       // the loss depends on no tensor that requires a gradient, or was computed under NoGradGuard
  not_required,  // the parameter doesn't ask for a gradient
  detached,      // the parameter's value is used, but off the tape: detach(), NoGradGuard
  not_reached,   // no path leads from the loss to the parameter
  freed,         // a path leads there, but a sweep has freed it
  zero,          // reached, and every element is exactly zero
  nonzero        // reached: nothing is wrong
};
std::string_view name_of(GradientReason reason);

struct Explanation {
  GradientReason reason;
  std::string text;  // in words: where the path ends, where the gradient becomes zero
  std::string to_string() const;
};

/// What d(sum of loss)/d(parameter) is, or why there is none. `parameter`: a leaf or an intermediate result. Sweeps the
/// loss once without freeing it (hooks are called); grad() stays as it is. Error if a tensor is undefined.
Explanation explain(const Tensor& loss, const Tensor& parameter);

}  // namespace tapegrad::autograd
