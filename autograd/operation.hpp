// What definitions of operations are made of: `record`, kernels, errors, and operands of the right dtype. Private to
// the library.
#pragma once
#include <string>

#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/kernels/elementwise.hpp>

namespace tapegrad {

namespace kernels = core::kernels;
using autograd::is_recording;
using autograd::needs_gradient;
using autograd::record;
using core::Array;

namespace autograd {

/// The dtype of a result of both. Beside a float32 tensor with dimensions a float64 number (rank 0) counts as float32.
inline Dtype common_dtype(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype()) && is_floating(b.dtype()) && (a.rank() == 0) != (b.rank() == 0))
    return (a.rank() == 0 ? b : a).dtype();
  return promote(a.dtype(), b.dtype());
}
/// f(a, b) with both converted to their common dtype, for operands that differ.
template <class F>
auto with_common_dtype(const Tensor& a, const Tensor& b, F f) {
  const Dtype dtype = common_dtype(a, b);
  const Tensor p = to(a, dtype), q = to(b, dtype);
  return f(p, q);
}
/// x in the dtype that an operation with `scalar` has.
inline Tensor promoted(const Tensor& x, const Scalar& scalar) { return to(x, scalar.promoted_with(x.dtype())); }
inline bool is_promoted(const Operand& x, const Scalar& scalar, const char* operation = __builtin_FUNCTION()) {
  return scalar.promoted_with(x.dtype(operation)) == x.dtype();
}

inline kernels::Number number(const Scalar& scalar) { return {scalar.real(), scalar.integer()}; }

/// f of a number as a vector of one element: its only axis is then 0 (or -1), as in PyTorch.
template <class F>
Tensor as_vector(const Tensor& number, F f) {
  return reshape(f(reshape(number, {1})), {});
}

/// The tensors in a vector. Braces would copy each of them twice, which costs as much as adding two numbers.
template <class... T>
Tensors list_of(T&&... tensors) {
  Tensors list;
  list.reserve(sizeof...(T));
  (list.push_back(std::forward<T>(tensors)), ...);
  return list;
}

/// Inside a closure: the gradient that input `i` has so far, if its memory may be written to (undefined if not). It
/// then has to be part of the gradient that the closure returns for the input.
core::Array take_gradient(int i);

inline void check_floating(const char* operation, const Operand& x) {
  if (!is_floating(x.dtype(operation)))
    throw DtypeError(std::string(operation) + ": expected a float32 or float64 tensor; got " +
                     std::string(name_of(x.dtype())) + "; convert it first with .to(tapegrad::float32)");
}

}  // namespace autograd

using autograd::list_of;

/// `at`, with infinity for the zeros where g is 0 too: what is divided by it there is 0, and so are its derivatives.
Tensor off_poles(const Tensor& g, const Tensor& at);
/// g times the derivative of gelu: d/dx x Phi(x) = Phi(x) + x Phi'(x), as differentiable operations.
Tensor gelu_gradient(const Tensor& g, const Tensor& x);

}  // namespace tapegrad
