#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/kernels.hpp>

namespace tapegrad {
namespace {

void check_arguments(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  autograd::check_defined(name, x), autograd::check_defined(name, weight);
  if (weight.rank() != 2)
    throw ShapeError(std::string(name) + ": weight must have shape [out, in]; got " + weight.shape().to_string());
  if (x.rank() == 0 || x.size(-1) != weight.size(1))
    throw ShapeError(std::string(name) +
                     ": the last dimension of x must be that of weight, [out, in]; got x of shape " +
                     x.shape().to_string() + " and weight of shape " + weight.shape().to_string());
  if (bias.defined() && bias.shape() != Shape{weight.size(0)})
    throw ShapeError(std::string(name) + ": bias must have shape " + Shape{weight.size(0)}.to_string() +
                     ", one element for each row of weight; got " + bias.shape().to_string());
  if (!is_floating(x.dtype()) || weight.dtype() != x.dtype() || (bias.defined() && bias.dtype() != x.dtype()))
    throw DtypeError(std::string(name) + ": x, weight and bias must all be float32 or all float64; got " +
                     std::string(name_of(x.dtype())) + ", " + std::string(name_of(weight.dtype())) +
                     (bias.defined() ? " and " + std::string(name_of(bias.dtype())) : std::string()) +
                     "; convert them with .to()");
}

/// Product of all sizes but the last one.
std::int64_t rows_of(const Shape& shape) { return shape.sub(0, shape.rank() - 1).numel(); }

Array product(const Array& x, const Array& weight, const Array& bias) {
  Shape shape = x.shape();
  shape[shape.rank() - 1] = weight.size(0);
  const Array rows = x.reshaped({rows_of(x.shape()), weight.size(1)});
  const Array out({rows.size(0), weight.size(0)}, x.dtype());
  if (bias.defined()) core::copy_into(out, bias);
  kernels::matmul_into(out, rows, weight.transposed(0, 1), bias.defined());
  return out.reshaped(shape);
}

/// The rows of g W, in the memory of the gradient that x has so far where there is one: that saves a pass.
Tensor to_input(const Tensor& g, const Tensor& weight, const Shape& shape) {
  if (!is_recording({g, weight}))
    if (const Array sum = autograd::take_gradient(0); sum.defined()) {
      kernels::matmul_into(sum.reshaped({g.size(0), weight.size(1)}), g.array(), weight.array(), true);
      return Tensor(sum);
    }
  return reshape(matmul(g, weight), shape);
}

/// The gradients of x W^T + b for those inputs that want one, but that of x.
Tensors to_parameters(const Tensor& g, const Tensor& x, bool biased) {
  Tensors gradients(biased ? 3 : 2);
  if (needs_gradient(1)) gradients[1] = matmul(transpose(g, 0, 1), reshape(x, {g.size(0), x.size(-1)}));
  if (biased && needs_gradient(2)) gradients[2] = sum(g, 0);
  return gradients;
}

}  // namespace

Tensor linear(const Operand& x, const Tensor& weight, const Tensor& bias) {
  check_arguments("linear", x, weight, bias);
  const autograd::TensorRef inputs[3] = {x, weight, bias};
  const bool biased = bias.defined();
  const auto value = [&] { return product(x.array(), weight.array(), biased ? bias.array() : Array()); };
  return record("linear", value, autograd::Inputs(inputs, biased ? 3 : 2), [x, weight, biased](const Tensor& gradient) {
    const Tensor g = reshape(gradient, {rows_of(x.shape()), weight.size(0)});
    Tensors gradients = to_parameters(g, x, biased);
    if (needs_gradient(0)) gradients[0] = to_input(g, weight, x.shape());
    return gradients;
  });
}

Tensor gelu_linear(const Operand& x, const Tensor& weight, const Tensor& bias) {
  check_arguments("gelu_linear", x, weight, bias);
  const autograd::TensorRef inputs[3] = {x, weight, bias};
  const bool biased = bias.defined();
  const auto value = [&] { return product(kernels::gelu(x.array()), weight.array(), biased ? bias.array() : Array()); };
  const auto backward = [x, weight, biased](const Tensor& gradient) {
    const Tensor g = reshape(gradient, {rows_of(x.shape()), weight.size(0)});
    const bool recorded = is_recording({gradient, x, weight});
    const Tensor to_activation = needs_gradient(0) ? reshape(matmul(g, weight), x.shape()) : Tensor();
    const bool both = !recorded && needs_gradient(0) && needs_gradient(1);
    const Tensor activation = both ? Tensor(kernels::gelu_forward_backward(to_activation.array(), x.array()))
                              : needs_gradient(1) ? gelu(x)
                                                  : Tensor();
    Tensors gradients = to_parameters(g, activation, biased);
    if (needs_gradient(0))
      gradients[0] = both       ? to_activation
                     : recorded ? gelu_gradient(to_activation, x)
                                : Tensor(kernels::gelu_backward(to_activation.array(), x.array()));
    return gradients;
  };
  return record("gelu_linear", value, autograd::Inputs(inputs, biased ? 3 : 2), backward);
}

}  // namespace tapegrad
