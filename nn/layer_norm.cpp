#include <tapegrad/nn/layer_norm.hpp>

#include <algorithm>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : Module("LayerNorm"), normalized_shape_(normalized_shape), eps_(options.eps) {
  if (normalized_shape.empty() ||
      std::any_of(normalized_shape.begin(), normalized_shape.end(), [](auto n) { return n < 0; }))
    throw ShapeError(fmt::format(
        "LayerNorm: normalized_shape must have at least one dimension, and none below 0; got {}", normalized_shape));
  require(options.eps >= 0, "LayerNorm: eps must not be negative; got {}", options.eps);
  describe(fmt::format("normalized_shape={}, eps={}", normalized_shape, options.eps));
  if (!options.elementwise_affine) return;
  weight_ = register_parameter("weight", ones(normalized_shape));
  if (options.bias) bias_ = register_parameter("bias", zeros(normalized_shape));
}

Tensor LayerNorm::forward(const Operand& x) const {
  const auto here = scope();
  const int rank = normalized_shape_.rank();
  autograd::check_defined("LayerNorm", x);
  require<ShapeError>(x.rank() >= rank && x.shape().sub(x.rank() - rank, x.rank()) == normalized_shape_,
                      "LayerNorm: the input must end in normalized_shape = {}; got {}", normalized_shape_, x.shape());
  return finished(layer_norm(x, weight_, bias_, eps_, rank));
}

}  // namespace tapegrad::nn
