// Root mean square normalisation as a layer (Zhang and Sennrich, 2019).
#pragma once
#include <optional>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension; the weight [width] is one at the start. Without eps: as
/// tapegrad::rms_norm.
class RMSNorm : public Module {
 public:
  explicit RMSNorm(std::int64_t width, std::optional<double> eps = {}) : Module("RMSNorm"), eps_(eps) {
    check_sizes({{"width", width}});
    if (eps && !(*eps >= 0)) throw ValueError("RMSNorm: eps must not be negative; got " + std::to_string(*eps));
    weight_ = register_parameter("weight", ones({width}));
    describe(std::to_string(width));
  }

  Tensor forward(const Operand& x) const {
    const auto here = scope();
    return finished(rms_norm(x, weight_, eps_));
  }
  Tensor operator()(const Operand& x) const { return forward(x); }
  const Tensor& weight() const { return weight_; }

 private:
  std::optional<double> eps_;
  Tensor weight_;
};

}  // namespace tapegrad::nn
