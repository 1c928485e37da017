// Layer normalisation (Ba et al., 2016).
#pragma once
#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  /// Without it there is neither weight nor bias.
  bool elementwise_affine = true;
  bool bias = true;
};

/// Over the last dimensions, whose sizes are `normalized_shape`: (x - mean) / sqrt(var + eps) * weight + bias, the
/// variance divided by n. The weight is one and the bias zero at the start.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});
  explicit LayerNorm(std::int64_t width, const LayerNormOptions& options = {}) : LayerNorm(Shape{width}, options) {}

  Tensor forward(const Operand& x) const;
  Tensor operator()(const Operand& x) const { return forward(x); }

  const Shape& normalized_shape() const { return normalized_shape_; }
  /// Undefined without elementwise_affine.
  const Tensor& weight() const { return weight_; }
  /// Undefined without bias.
  const Tensor& bias() const { return bias_; }

 private:
  Shape normalized_shape_;
  double eps_;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace tapegrad::nn
