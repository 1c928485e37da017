// Layer normalisation over rows, and root mean square normalisation, which leaves the mean where it is. Private to the
// library.
#pragma once
#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

enum class Centering { mean, none };

struct LayerNorm {
  Array y;      // like x
  Array stats;  // [rows, 2]: the mean of each row (0 without centering), and 1 / sqrt(variance + eps)
};
/// x is any number of rows of `width` elements; `weight` and `bias`, of `width` elements, may be undefined.
LayerNorm layer_norm(const Array& x, const Array& weight, const Array& bias, std::int64_t width, double eps,
                     Centering centering);

struct LayerNormGradients {
  Array x;
  Array weight, bias;  // [width]; undefined unless asked for
};
/// One pass over g and x. `with_weight`: the gradients of weight and bias are wanted too. `sum`: a contiguous array
/// like x to which its gradient is added, or undefined.
LayerNormGradients layer_norm_backward(const Array& g, const Array& x, const Array& weight, const Array& stats,
                                       std::int64_t width, bool with_weight, Centering centering,
                                       const Array& sum = {});

}  // namespace tapegrad::core::kernels
