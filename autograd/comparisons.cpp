// Comparisons and logic: no gradients.
#include <algorithm>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>

namespace tapegrad {

using autograd::check_defined;
using kernels::Comparison;

namespace {

Tensor compare(Comparison comparison, const Tensor& a, const Tensor& b, const char* operation = __builtin_FUNCTION()) {
  check_defined(operation, a), check_defined(operation, b);
  const autograd::Span span("compare");
  const Dtype dtype = autograd::common_dtype(a, b);
  return Tensor(kernels::compare(comparison, a.array().converted(dtype), b.array().converted(dtype)));
}
Tensor compare(Comparison comparison, const Tensor& a, const Scalar& b, const char* operation = __builtin_FUNCTION()) {
  check_defined(operation, a);
  const autograd::Span span("compare");
  const Dtype dtype = b.promoted_with(a.dtype());
  return Tensor(kernels::compare(comparison, a.array().converted(dtype), autograd::number(b)));
}

bool all_true(const Array& x) {
  return std::all_of(x.data<bool>(), x.data<bool>() + x.numel(), [](bool v) { return v; });
}

}  // namespace

Tensor eq(const Operand& a, const Operand& b) { return compare(Comparison::eq, a, b); }
Tensor eq(const Operand& a, const Scalar& b) { return compare(Comparison::eq, a, b); }
Tensor ne(const Operand& a, const Operand& b) { return compare(Comparison::ne, a, b); }
Tensor ne(const Operand& a, const Scalar& b) { return compare(Comparison::ne, a, b); }
Tensor lt(const Operand& a, const Operand& b) { return compare(Comparison::lt, a, b); }
Tensor lt(const Operand& a, const Scalar& b) { return compare(Comparison::lt, a, b); }
Tensor le(const Operand& a, const Operand& b) { return compare(Comparison::le, a, b); }
Tensor le(const Operand& a, const Scalar& b) { return compare(Comparison::le, a, b); }
Tensor gt(const Operand& a, const Operand& b) { return compare(Comparison::gt, a, b); }
Tensor gt(const Operand& a, const Scalar& b) { return compare(Comparison::gt, a, b); }
Tensor ge(const Operand& a, const Operand& b) { return compare(Comparison::ge, a, b); }
Tensor ge(const Operand& a, const Scalar& b) { return compare(Comparison::ge, a, b); }

Tensor logical_and(const Operand& a, const Operand& b) {
  return Tensor(kernels::logical_and(a.array().converted(boolean), b.array().converted(boolean)));
}
Tensor logical_or(const Operand& a, const Operand& b) {
  return Tensor(kernels::logical_or(a.array().converted(boolean), b.array().converted(boolean)));
}
Tensor logical_xor(const Operand& a, const Operand& b) { return ne(to(a, boolean), to(b, boolean)); }
Tensor logical_not(const Operand& x) { return Tensor(kernels::logical_not(x.array())); }
Tensor isnan(const Operand& x) { return Tensor(kernels::isnan(x.array())); }
Tensor isfinite(const Operand& x) { return Tensor(kernels::isfinite(x.array())); }

bool equal(const Operand& a, const Operand& b) { return a.shape() == b.shape() && all_true(eq(a, b).array()); }
bool allclose(const Operand& a, const Operand& b, double rtol, double atol) {
  return all_true(kernels::is_close(a.array().converted(float64), b.array().converted(float64), rtol, atol));
}

}  // namespace tapegrad
