// Parameter updates and what clipping needs, each one pass over memory. Arrays are contiguous, of one floating dtype
// and size, and updated in place; gradients are only read. Private to the library.
#pragma once
#include <cstdint>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

/// Elements that are worth a thread.
inline constexpr std::int64_t kStepElementsPerTask = 1 << 14;

/// The steps update elements begin ... end - 1, on this thread.
struct Elements {
  std::int64_t begin, end;
};

/// The settings of all rules; each reads its own.
struct Step {
  double lr, weight_decay, momentum, dampening, beta1, beta2, eps, alpha;
  bool nesterov, maximize;
  /// Of SGD: the buffer starts as the gradient.
  bool first;
  /// Counted from 1.
  std::int64_t number;
};
/// `buffer` is undefined without momentum.
void sgd_step(Elements elements, const Array& parameter, const Array& gradient, const Array& buffer, const Step& step);
/// `largest` is undefined without amsgrad. `decoupled`, for AdamW: the decay shrinks the parameter instead of entering
/// the gradient.
void adam_step(Elements elements, const Array& parameter, const Array& gradient, const Array& mean, const Array& square,
               const Array& largest, bool decoupled, const Step& step);
/// `buffer` is undefined without momentum, `mean` unless centered.
void rmsprop_step(Elements elements, const Array& parameter, const Array& gradient, const Array& square,
                  const Array& buffer, const Array& mean, const Step& step);
void lion_step(Elements elements, const Array& parameter, const Array& gradient, const Array& mean, const Step& step);
/// Muon's update of a matrix as a whole: `iterations` of Newton and Schulz's, and `scale` of the direction beside lr.
void muon_step(const Array& parameter, const Array& gradient, const Array& buffer, std::int64_t iterations,
               double scale, const Step& step);

/// to = keep to + (1 - keep) from.
void average_in_place(Elements elements, const Array& to, const Array& from, double keep);

/// Sum of |x|^p; for infinite p the largest |x|. NaN if any element is.
double norm_power(const Array& array, double p);
void scale_in_place(const Array& array, double factor);
/// Every element into [-bound, bound]; NaN stays.
void clamp_in_place(const Array& array, double bound);

}  // namespace tapegrad::core::kernels
