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

struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize;
  /// The buffer starts as the gradient.
  bool first;
};
/// `buffer` is undefined without momentum.
void sgd_step(Elements elements, const Array& parameter, const Array& gradient, const Array& buffer,
              const SgdStep& step);

struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  /// AdamW: the decay shrinks the parameter instead of entering the gradient.
  bool decoupled;
  bool maximize;
  /// Counted from 1.
  std::int64_t number;
};
/// `largest` is undefined without amsgrad.
void adam_step(Elements elements, const Array& parameter, const Array& gradient, const Array& mean, const Array& square,
               const Array& largest, const AdamStep& step);

struct RmspropStep {
  double lr, alpha, eps, weight_decay, momentum;
  bool maximize;
};
/// `buffer` is undefined without momentum, `mean` unless centered.
void rmsprop_step(Elements elements, const Array& parameter, const Array& gradient, const Array& square,
                  const Array& buffer, const Array& mean, const RmspropStep& step);

struct LionStep {
  double lr, beta1, beta2, weight_decay;
  bool maximize;
};
void lion_step(Elements elements, const Array& parameter, const Array& gradient, const Array& mean,
               const LionStep& step);

/// to = keep to + (1 - keep) from.
void average_in_place(Elements elements, const Array& to, const Array& from, double keep);

/// Sum of |x|^p; for infinite p the largest |x|. NaN if any element is.
double norm_power(const Array& array, double p);
void scale_in_place(const Array& array, double factor);
/// Every element into [-bound, bound]; NaN stays.
void clamp_in_place(const Array& array, double bound);

}  // namespace tapegrad::core::kernels
