// Layer and root mean square normalisation: one is the other around the mean.
#include <limits>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/layer_norm.hpp>

namespace tapegrad {

using kernels::Centering;

namespace {

/// The last `rank` dimensions of x, which are normalised over.
Shape normalized_shape(const char* operation, const Operand& x, int rank) {
  if (rank < 1 || rank > x.rank(operation))
    throw ShapeError(std::string(operation) + ": normalized_rank must be in [1, rank of x]; got " +
                     std::to_string(rank) + " for x of shape " + x.shape().to_string());
  return x.shape().sub(x.rank() - rank, x.rank());
}

void check_parameter(const char* operation, const char* name, const Tensor& parameter, const Tensor& x,
                     const Shape& shape) {
  if (!parameter.defined()) return;
  if (parameter.shape() != shape)
    throw ShapeError(std::string(operation) + ": " + name + " must have the shape of the normalised dimensions, " +
                     shape.to_string() + "; got " + parameter.shape().to_string() + " for x of shape " +
                     x.shape().to_string());
  if (parameter.dtype() != x.dtype())
    throw DtypeError(std::string(operation) + ": " + name + " must have the dtype of x, " +
                     std::string(name_of(x.dtype())) + "; got " + std::string(name_of(parameter.dtype())) +
                     "; convert one with .to()");
}

struct LayerNormBackward {
  Tensor x, weight, bias;
  Array stats;
  Shape shape;
  double eps;
  Centering centering;

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
                                     shape.numel(), parameters, centering, autograd::take_gradient(0));
    if (!parameters) return {Tensor(gradients.x), {}, {}};
    return {Tensor(gradients.x), Tensor(gradients.weight.reshaped(shape)), Tensor(gradients.bias.reshaped(shape))};
  }

  /// The same by differentiable operations.
  Tensors composed(const Tensor& g) const {
    Shape last;
    for (int axis = x.rank() - shape.rank(); axis < x.rank(); ++axis) last.push_back(axis);
    const Axes axes(last);
    const Tensor centered = centering == Centering::mean ? x - mean(x, axes, true) : x;
    const Tensor inverse = rsqrt(mean(square(centered), axes, true) + eps);
    const Tensor normal = centered * inverse;
    const Tensor gw = weight.defined() ? g * weight : g;
    const Tensor moved = centering == Centering::mean ? gw - mean(gw, axes, true) : gw;
    const Tensor to_x = (moved - normal * mean(gw * normal, axes, true)) * inverse;
    return {to_x, weight.defined() ? sum_to(g * normal, shape) : Tensor(),
            bias.defined() ? sum_to(g, shape) : Tensor()};
  }
};

/// x normalised over its last dimensions, by either kind of centering.
Tensor normalized(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  const Shape& shape, Centering centering) {
  if (!(eps >= 0)) throw ValueError(std::string(operation) + ": eps must be 0 or more; got " + std::to_string(eps));
  check_parameter(operation, "weight", weight, x, shape);
  check_parameter(operation, "bias", bias, x, shape);
  const auto value_of = [](const Tensor& t) { return t.defined() ? t.array() : Array(); };
  const autograd::Span span(operation);
  auto result = kernels::layer_norm(x.array(), value_of(weight), value_of(bias), shape.numel(), eps, centering);
  autograd::TensorRef inputs[3] = {x, x, x};
  std::size_t count = 1;
  if (weight.defined()) inputs[count++] = weight;
  if (bias.defined()) inputs[count++] = bias;
  return record(operation, std::move(result.y), autograd::Inputs(inputs, count),
                LayerNormBackward{x, weight, bias, std::move(result.stats), shape, eps, centering});
}

}  // namespace

Tensor layer_norm(const Operand& x, const Tensor& weight, const Tensor& bias, double eps, int normalized_rank) {
  const Shape shape = normalized_shape("layer_norm", x, normalized_rank);
  return normalized("layer_norm", x, weight, bias, eps, shape, Centering::mean);
}

Tensor rms_norm(const Operand& x, const Tensor& weight, std::optional<double> eps, int normalized_rank) {
  autograd::check_floating("rms_norm", x);
  const Shape shape = normalized_shape("rms_norm", x, normalized_rank);
  const double least =
      x.dtype() == float32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  return normalized("rms_norm", x, weight, {}, eps.value_or(least), shape, Centering::none);
}

}  // namespace tapegrad
