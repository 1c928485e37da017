// Clipping of gradients, between the backward sweep and the optimizer's step.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::optim {

struct ClipOptions {
  /// Any p > 0; infinity takes the largest absolute value.
  double norm_type = 2.0;
  /// ValueError, with all gradients as they were, if the norm is NaN or infinite.
  bool error_if_nonfinite = false;
};

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is that of all of them together, and returns
/// the norm before; 0 if there is no gradient. A parameter given twice counts once; a norm that is NaN makes all
/// gradients NaN.
double clip_grad_norm(const Tensors& parameters, double max_norm, const ClipOptions& options = {});

/// Clamps every element of every gradient to [-value, value].
void clip_grad_value(const Tensors& parameters, double value);

}  // namespace tapegrad::optim
