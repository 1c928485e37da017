#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/kernels.hpp>

namespace tapegrad {
namespace {

void check_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.rank() != 2)
    throw ShapeError("linear: weight must have shape [out, in]; got " + weight.shape().to_string());
  if (x.rank() == 0 || x.size(-1) != weight.size(1))
    throw ShapeError("linear: the last dimension of x must be that of weight, [out, in]; got x of shape " +
                     x.shape().to_string() + " and weight of shape " + weight.shape().to_string());
  if (bias.defined() && bias.shape() != Shape{weight.size(0)})
    throw ShapeError("linear: bias must have shape " + Shape{weight.size(0)}.to_string() +
                     ", one element for each row of weight; got " + bias.shape().to_string());
  if (!is_floating(x.dtype()) || weight.dtype() != x.dtype() || (bias.defined() && bias.dtype() != x.dtype()))
    throw DtypeError("linear: x, weight and bias must all be float32 or all float64; got " +
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

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_arguments(x, weight, bias);
  const autograd::TensorRef inputs[3] = {x, weight, bias};
  const bool biased = bias.defined();
  const auto value = [&] { return product(x.array(), weight.array(), biased ? bias.array() : Array()); };
  return record("linear", value, autograd::Inputs(inputs, biased ? 3 : 2), [x, weight, biased](const Tensor& g) {
    const std::int64_t rows = rows_of(x.shape());
    const Tensor g_rows = reshape(g, {rows, weight.size(0)});
    Tensors gradients(biased ? 3 : 2);
    if (needs_gradient(0)) gradients[0] = reshape(matmul(g_rows, weight), x.shape());
    if (needs_gradient(1)) gradients[1] = matmul(transpose(g_rows, 0, 1), reshape(x, {rows, weight.size(1)}));
    if (biased && needs_gradient(2)) gradients[2] = sum(g_rows, 0);
    return gradients;
  });
}

}  // namespace tapegrad
