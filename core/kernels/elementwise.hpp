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

// Arithmetic. On booleans + is "or" and * is "and"; subtract throws DtypeError. divide takes floating arrays alone.
Array add(const Array& a, const Array& b);
Array add(const Array& a, Number b);
Array subtract(const Array& a, const Array& b);
Array subtract(const Array& a, Number b);
Array subtract(Number a, const Array& b);
Array multiply(const Array& a, const Array& b);
Array multiply(const Array& a, Number b);
Array divide(const Array& a, const Array& b);
Array divide(const Array& a, Number b);
Array divide(Number a, const Array& b);
/// std::pow; integers to negative powers are 0, but for 1 and -1.
Array pow(const Array& a, const Array& b);
Array pow(const Array& a, Number b);
Array pow(Number a, const Array& b);
/// NaN if either is NaN.
Array maximum(const Array& a, const Array& b);
Array minimum(const Array& a, const Array& b);

// Comparisons; the results are boolean.
enum class Comparison { eq, ne, lt, le, gt, ge };
Array compare(Comparison comparison, const Array& a, const Array& b);
Array compare(Comparison comparison, const Array& a, Number b);
Array logical_and(const Array& a, const Array& b);
Array logical_or(const Array& a, const Array& b);
Array logical_not(const Array& x);
Array isnan(const Array& x);
Array isfinite(const Array& x);
/// a == b or |a - b| <= atol + rtol |b|, for float64.
Array is_close(const Array& a, const Array& b, double rtol, double atol);

/// a where `condition` (boolean) is true, b elsewhere.
Array where(const Array& condition, const Array& a, const Array& b);
Array where(const Array& condition, const Array& a, Number b);
Array where(const Array& condition, Number a, const Array& b);
/// NaN stays NaN.
Array clamp(const Array& x, Number low, Number high);

// Any numbers but booleans; rounding leaves integers alone.
Array negative(const Array& x);
Array absolute(const Array& x);
Array sign(const Array& x);
Array square(const Array& x);
Array relu(const Array& x);
Array floor(const Array& x);
Array ceil(const Array& x);
Array round(const Array& x);

// Functions of floating arrays.
Array exp(const Array& x);
Array log(const Array& x);
Array log1p(const Array& x);
Array sqrt(const Array& x);
Array rsqrt(const Array& x);
Array reciprocal(const Array& x);
Array sin(const Array& x);
Array cos(const Array& x);
Array tanh(const Array& x);
Array erf(const Array& x);
Array sigmoid(const Array& x);
Array softplus(const Array& x);
Array silu(const Array& x);
Array gelu(const Array& x);
Array gelu_tanh(const Array& x);

// g times the derivative, in one pass: of the input x or of the result y, whichever it is computed from.
Array sqrt_backward(const Array& g, const Array& y);
Array tanh_backward(const Array& g, const Array& y);
Array sigmoid_backward(const Array& g, const Array& y);
Array relu_backward(const Array& g, const Array& x);
Array silu_backward(const Array& g, const Array& x);
Array gelu_backward(const Array& g, const Array& x);
Array gelu_tanh_backward(const Array& g, const Array& x);

}  // namespace tapegrad::core::kernels
