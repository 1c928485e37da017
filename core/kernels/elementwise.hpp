// Elementwise kernels. Operands broadcast (ShapeError in the name of the operation if they don't) and have one dtype; a
// Number stands for an operand of one element. Private to the library.
#pragma once
#include <cstdint>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

/// A number as both kinds of arrays want it.
struct Number {
  double real = 0;
  std::int64_t integer = 0;

  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, bool>)
      return real != 0;
    else if constexpr (std::is_same_v<T, std::int64_t>)
      return integer;
    else
      return static_cast<T>(real);
  }
};

using Unary = Array(const Array& x);
using Binary = Array(const Array& a, const Array& b);
using WithNumber = Array(const Array& a, Number b);
using NumberWith = Array(Number a, const Array& b);

// Arithmetic. On booleans + is "or" and * is "and"; subtract throws DtypeError. divide takes floating arrays alone. pow
// is std::pow; integers to negative powers are 0, but for 1 and -1. maximum and minimum are NaN if either is NaN.
Binary add, subtract, multiply, divide, pow, maximum, minimum;
WithNumber add, subtract, multiply, divide, pow;
NumberWith subtract, divide, pow;

// Comparisons; the results are boolean.
enum class Comparison { eq, ne, lt, le, gt, ge };
Array compare(Comparison comparison, const Array& a, const Array& b);
Array compare(Comparison comparison, const Array& a, Number b);
Binary logical_and, logical_or;
Unary logical_not, isnan, isfinite;
/// a == b or |a - b| <= atol + rtol |b|, for float64.
Array is_close(const Array& a, const Array& b, double rtol, double atol);

/// a where `condition` (boolean) is true, b elsewhere.
Array where(const Array& condition, const Array& a, const Array& b);
Array where(const Array& condition, const Array& a, Number b);
Array where(const Array& condition, Number a, const Array& b);
/// NaN stays NaN.
Array clamp(const Array& x, Number low, Number high);

// Any numbers but booleans; rounding leaves integers alone.
Unary absolute, sign, square, relu, floor, ceil, round;
// Functions of floating arrays.
Unary exp, expm1, log, log1p, sqrt, sin, cos, atan, tanh, erf, sigmoid, softplus, silu, gelu, gelu_tanh;

/// g times the derivative, in one pass.
using BackwardFromResult = Array(const Array& g, const Array& y);
using BackwardFromInput = Array(const Array& g, const Array& x);
BackwardFromResult sqrt_backward, tanh_backward, sigmoid_backward;
BackwardFromInput relu_backward, silu_backward, gelu_backward, gelu_tanh_backward;
/// v where x is positive, v * slope elsewhere: leaky_relu of v = x, and its gradient of v = g.
Array leaky(const Array& v, const Array& x, double slope);
/// gelu(x), while g, which is contiguous, is multiplied in place by the derivative.
Array gelu_forward_backward(const Array& g, const Array& x);

}  // namespace tapegrad::core::kernels
