// y = x W^T + b.
#pragma once
#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

struct LinearOptions {
  bool bias = true;
};

/// weight [out_features, in_features] and bias [out_features], both drawn uniformly from +-1/sqrt(in_features).
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options = {});
  /// Of these parameters, [out_features, in_features] and [out_features] or undefined. Those of another module are then
  /// tied: trained and saved as one. ShapeError, GradError.
  explicit Linear(const Tensor& weight, const Tensor& bias = {});

  /// x [..., in_features] -> [..., out_features].
  Tensor forward(const Operand& x) const;
  Tensor operator()(const Operand& x) const { return forward(x); }
  /// forward(gelu(x)), which keeps x alone for its gradient.
  Tensor of_gelu(const Operand& x) const;

  std::int64_t in_features() const { return weight_.size(1); }
  std::int64_t out_features() const { return weight_.size(0); }
  const Tensor& weight() const { return weight_; }
  /// Undefined without bias.
  const Tensor& bias() const { return bias_; }

 private:
  void check(const Tensor& x) const;

  Tensor weight_;
  Tensor bias_;
};

}  // namespace tapegrad::nn
