#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/layer_norm.hpp>

namespace tapegrad {
namespace {

/// The last `rank` dimensions of x, which are normalised over.
Shape normalized_shape(const Tensor& x, int rank) {
  if (rank < 1 || rank > x.rank())
    throw ShapeError("layer_norm: normalized_rank must be in [1, rank of x]; got " + std::to_string(rank) +
                     " for x of shape " + x.shape().to_string());
  return x.shape().sub(x.rank() - rank, x.rank());
}

void check_parameter(const char* name, const Tensor& parameter, const Tensor& x, const Shape& shape) {
  if (!parameter.defined()) return;
  if (parameter.shape() != shape)
    throw ShapeError(std::string("layer_norm: ") + name + " must have the shape of the normalised dimensions, " +
                     shape.to_string() + "; got " + parameter.shape().to_string() + " for x of shape " +
                     x.shape().to_string());
  if (parameter.dtype() != x.dtype())
    throw DtypeError(std::string("layer_norm: ") + name + " must have the dtype of x, " +
                     std::string(name_of(x.dtype())) + "; got " + std::string(name_of(parameter.dtype())) +
                     "; convert one with .to()");
}

struct LayerNormBackward {
  Tensor x, weight, bias;
  Array stats;
  Shape shape;
  double eps;

  Tensors operator()(const Tensor& g) const {
    Tensors gradients = is_recording({g, x, weight}) ? composed(g) : fused(g);
    if (!bias.defined()) gradients.pop_back();
    if (!weight.defined()) gradients.erase(gradients.begin() + 1);
    return gradients;
  }

 private:
  Tensors fused(const Tensor& g) const {
    const int inputs = 1 + weight.defined() + bias.defined();
    const bool parameters = inputs > 1 && (needs_gradient(1) || needs_gradient(inputs - 1));
    const auto gradients =
        kernels::layer_norm_backward(g.array(), x.array(), weight.defined() ? weight.array() : Array(), stats,
                                     shape.numel(), parameters, autograd::take_gradient(0));
    if (!parameters) return {Tensor(gradients.x), {}, {}};
    return {Tensor(gradients.x), Tensor(gradients.weight.reshaped(shape)), Tensor(gradients.bias.reshaped(shape))};
  }

  /// The same by differentiable operations.
  Tensors composed(const Tensor& g) const {
    Shape last;
    for (int axis = x.rank() - shape.rank(); axis < x.rank(); ++axis) last.push_back(axis);
    const Axes axes(last);
    const Tensor centered = x - mean(x, axes, true);
    const Tensor inverse = rsqrt(mean(square(centered), axes, true) + eps);
    const Tensor normal = centered * inverse;
    const Tensor gw = weight.defined() ? g * weight : g;
    const Tensor to_x = (gw - mean(gw, axes, true) - normal * mean(gw * normal, axes, true)) * inverse;
    return {to_x, weight.defined() ? sum_to(g * normal, shape) : Tensor(),
            bias.defined() ? sum_to(g, shape) : Tensor()};
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, int normalized_rank) {
  const Shape shape = normalized_shape(x, normalized_rank);
  check_parameter("weight", weight, x, shape);
  check_parameter("bias", bias, x, shape);
  const auto value_of = [](const Tensor& t) { return t.defined() ? t.array() : Array(); };
  const autograd::Span span("layer_norm");
  auto result = kernels::layer_norm(x.array(), value_of(weight), value_of(bias), shape.numel(), eps);
  autograd::TensorRef inputs[3] = {x, x, x};
  std::size_t count = 1;
  if (weight.defined()) inputs[count++] = weight;
  if (bias.defined()) inputs[count++] = bias;
  return record("layer_norm", std::move(result.y), autograd::Inputs(inputs, count),
                LayerNormBackward{x, weight, bias, std::move(result.stats), shape, eps});
}

}  // namespace tapegrad
