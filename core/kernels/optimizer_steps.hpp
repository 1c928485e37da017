// Parameter updates and what clipping needs, each one pass over memory. Arrays are contiguous, of one floating dtype
// and size, and updated in place; gradients are only read. Private to the library.
#pragma once
#include <cstdint>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize;
  /// The buffer is undefined memory yet, and starts as the gradient.
  bool first;
};
/// `buffer` is undefined without momentum.
void sgd_step(const Array& parameter, const Array& gradient, const Array& buffer, const SgdStep& step);

struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  /// AdamW: the decay shrinks the parameter instead of entering the gradient.
  bool decoupled;
  bool maximize;
  /// Counted from 1.
  std::int64_t number;
};
/// `largest` is undefined without amsgrad.
void adam_step(const Array& parameter, const Array& gradient, const Array& mean, const Array& square,
               const Array& largest, const AdamStep& step);

/// Sum of |x|^p; for infinite p the largest |x|. NaN if any element is.
double norm_power(const Array& array, double p);
void scale_in_place(const Array& array, double factor);

}  // namespace tapegrad::core::kernels
