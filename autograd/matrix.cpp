#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/kernels.hpp>

namespace tapegrad {
namespace {

void check_operands(const Operand& a, const Operand& b) {
  for (const Operand* x : {&a, &b}) autograd::check_defined("matmul", *x);
  const auto shapes = [&] { return a.shape().to_string() + " and " + b.shape().to_string(); };
  if (a.dtype() != b.dtype() || !is_floating(a.dtype()))
    throw DtypeError("matmul: both operands must be float32 or both float64; got " + std::string(name_of(a.dtype())) +
                     " and " + std::string(name_of(b.dtype())) + "; convert one with .to()");
  if (a.rank() == 0 || b.rank() == 0)
    throw ShapeError("matmul: operands must have at least one dimension; got shapes " + shapes() +
                     "; use * for scalars");
  const std::int64_t inner = b.size(b.rank() == 1 ? 0 : -2);
  if (a.size(-1) != inner)
    throw ShapeError("matmul: inner dimensions must be equal; got shapes " + shapes() + ", that is " +
                     std::to_string(a.size(-1)) + " and " + std::to_string(inner) +
                     "; transpose or reshape one of them");
}

/// The product of matrices or batches of matrices. d/da = g b^T, d/db = a^T g, summed over what was broadcast.
Tensor product(const Tensor& a, const Tensor& b) {
  const auto value = [&] { return kernels::matmul(a.array(), b.array()); };
  return record("matmul", value, {a, b}, [a, b](const Tensor& g) {
    Tensor to_a, to_b;
    if (needs_gradient(0)) to_a = sum_to(product(g, b.transpose(-2, -1)), a.shape());
    if (needs_gradient(1)) {
      // One matrix for the whole batch: the sum over the batch is inside the product.
      if (b.rank() == 2 && a.rank() > 2)
        to_b = product(flatten(a, 0, -2).transpose(0, 1), flatten(g, 0, -2));
      else
        to_b = sum_to(product(a.transpose(-2, -1), g), b.shape());
    }
    return Tensors{to_a, to_b};
  });
}

}  // namespace

Tensor matmul(const Operand& a, const Operand& b) {
  check_operands(a, b);
  if (a.rank() > 1 && b.rank() > 1) return product(a, b);
  Tensor result = product(a.rank() == 1 ? unsqueeze(a, 0) : Tensor(a), b.rank() == 1 ? unsqueeze(b, 1) : Tensor(b));
  if (b.rank() == 1) result = squeeze(result, -1);
  if (a.rank() == 1) result = squeeze(result, b.rank() == 1 ? -1 : -2);
  return result;
}

Tensor outer(const Operand& a, const Operand& b) {
  if (a.rank() != 1 || b.rank() != 1)
    throw ShapeError("outer: both operands must be vectors; got shapes " + a.shape().to_string() + " and " +
                     b.shape().to_string() + "; flatten them first");
  return unsqueeze(a, 1) * unsqueeze(b, 0);
}

Tensor trace(const Operand& x) {
  if (x.rank() != 2) throw ShapeError("trace: expected a matrix; got shape " + x.shape().to_string());
  return sum(diagonal(x));
}

Tensor Tensor::matmul(const Tensor& other, SourceLocation where) const {
  return tapegrad::matmul({*this, where}, other);
}

}  // namespace tapegrad
