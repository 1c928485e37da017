#include <tapegrad/nn/linear.hpp>

#include <cmath>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/nn/init.hpp>

namespace tapegrad::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options) : Module("Linear") {
  check_sizes({{"in_features", in_features}, {"out_features", out_features}});
  describe(fmt::format("in_features={}, out_features={}, bias={}", in_features, out_features, options.bias));
  const double bound = in_features > 0 ? 1.0 / std::sqrt(static_cast<double>(in_features)) : 0.0;
  weight_ = register_parameter("weight", init::uniform_(empty({out_features, in_features}), -bound, bound));
  if (options.bias) bias_ = register_parameter("bias", init::uniform_(empty({out_features}), -bound, bound));
}

Linear::Linear(const Tensor& weight, const Tensor& bias) : Module("Linear") {
  autograd::check_defined("Linear", weight);
  require<ShapeError>(weight.rank() == 2 && (!bias.defined() || bias.shape() == Shape{weight.size(0)}),
                      "Linear: weight must be [out_features, in_features] and bias [out_features]; got {} and {}",
                      weight.shape(), bias.defined() ? bias.shape().to_string() : "no bias");
  describe(fmt::format("in_features={}, out_features={}, bias={}", weight.size(1), weight.size(0), bias.defined()));
  weight_ = register_parameter("weight", weight);
  if (bias.defined()) bias_ = register_parameter("bias", bias);
}

void Linear::check(const Tensor& x) const {
  autograd::check_defined("Linear", x);
  require<ShapeError>(x.rank() != 0 && x.size(-1) == in_features(),
                      "Linear: expected in_features = {} in the last dimension of the input; got {}; reshape the input "
                      "or make the layer as wide as it",
                      in_features(), x.shape());
}

Tensor Linear::forward(const Operand& x) const {
  const auto here = scope();
  check(x);
  return finished(linear(x, weight_, bias_));
}

Tensor Linear::of_gelu(const Operand& x) const {
  const auto here = scope();
  check(x);
  return finished(gelu_linear(x, weight_, bias_));
}

}  // namespace tapegrad::nn
