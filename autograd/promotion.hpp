// Bringing operands to a common dtype before an operation is recorded. Private to the library.
#pragma once
#include <tapegrad/autograd/scalar.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/core/kernels/elementwise.hpp>

namespace tapegrad::autograd {

/// f(a, b) with both converted to their common dtype, for operands that differ.
template <class F>
auto with_common_dtype(const Tensor& a, const Tensor& b, F f) {
  const Dtype dtype = promote(a.dtype(), b.dtype());
  return f(to(a, dtype), to(b, dtype));
}
/// x in the dtype that an operation with `scalar` has.
inline Tensor promoted(const Tensor& x, const Scalar& scalar) { return to(x, scalar.promoted_with(x.dtype())); }
inline bool is_promoted(const Tensor& x, const Scalar& scalar) { return scalar.promoted_with(x.dtype()) == x.dtype(); }

inline core::kernels::Number number(const Scalar& scalar) { return {scalar.real(), scalar.integer()}; }

}  // namespace tapegrad::autograd
