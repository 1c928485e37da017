// Elementwise operations. Operands broadcast by NumPy's rule and are promoted to a common dtype (boolean < int64 <
// float32 < float64; beside a float32 tensor with dimensions a float64 number, of rank 0, counts as float32); functions
// of one real argument turn integers into float32. g is the gradient of the result. At a pole, where a derivative is
// infinite, the gradient is 0 where g is.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

Tensor operator+(const Operand& a, const Operand& b);
Tensor operator+(const Operand& a, const Scalar& b);
Tensor operator+(const Scalar& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Scalar& b);
Tensor operator-(const Scalar& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Scalar& b);
Tensor operator*(const Scalar& a, const Operand& b);
/// Integers divide to float32. d/da = g / b, d/db = -g a / b^2.
Tensor operator/(const Operand& a, const Operand& b);
Tensor operator/(const Operand& a, const Scalar& b);
Tensor operator/(const Scalar& a, const Operand& b);
Tensor operator-(const Operand& a);

/// a^b. d/da = g b a^(b-1), 0 where b = 0, and where a = g = 0 and b < 1; d/db = g a^b log a, 0 where a = 0 and b >= 0.
Tensor pow(const Operand& a, const Operand& b);
Tensor pow(const Operand& a, const Scalar& b);
Tensor pow(const Scalar& a, const Operand& b);
/// The larger and the smaller of two; ties share the gradient half and half. NaN if either is NaN.
Tensor maximum(const Operand& a, const Operand& b);
Tensor minimum(const Operand& a, const Operand& b);
/// a where `condition` is nonzero, b elsewhere.
Tensor where(const Operand& condition, const Operand& a, const Operand& b);
Tensor where(const Operand& condition, const Operand& a, const Scalar& b);
Tensor where(const Operand& condition, const Scalar& a, const Operand& b);

/// a + weight (b - a), exactly a for weight 0 and exactly b for weight 1. d/da = g (1 - weight), d/db = g weight,
/// d/dweight = g (b - a).
Tensor lerp(const Operand& a, const Operand& b, const Operand& weight);
Tensor lerp(const Operand& a, const Operand& b, double weight);

Tensor neg(const Operand& x);
/// |x|; the gradient at 0 is 0.
Tensor abs(const Operand& x);
/// -1, 0 or 1; gradient 0.
Tensor sign(const Operand& x);
Tensor exp(const Operand& x);
/// exp(x) - 1 without loss of digits near 0.
Tensor expm1(const Operand& x);
Tensor log(const Operand& x);
Tensor log1p(const Operand& x);
/// The gradient at 0 is +inf, and 0 where g is 0.
Tensor sqrt(const Operand& x);
Tensor rsqrt(const Operand& x);
Tensor square(const Operand& x);
Tensor reciprocal(const Operand& x);
Tensor sin(const Operand& x);
Tensor cos(const Operand& x);
Tensor tan(const Operand& x);
/// The angle in (-pi/2, pi/2); its derivative is 1 / (1 + x^2).
Tensor atan(const Operand& x);
Tensor tanh(const Operand& x);
Tensor erf(const Operand& x);
/// 1 / (1 + exp(-x)).
Tensor sigmoid(const Operand& x);
/// log(1 + exp(x)), without overflow.
Tensor softplus(const Operand& x);
/// log(1 + exp(beta x)) / beta, and x itself where beta x is above `threshold`, with gradient 1. ValueError if beta is
/// 0 or not finite.
Tensor softplus(const Operand& x, double beta, double threshold = 20);
/// max(x, 0); the gradient at 0 is 0.
Tensor relu(const Operand& x);
/// x where x > 0, negative_slope x elsewhere; the gradient at 0 is negative_slope.
Tensor leaky_relu(const Operand& x, double negative_slope = 0.01);
/// Exponential linear unit (Clevert et al., 2015): x where x > 0, alpha (exp(x) - 1) elsewhere; the gradient at 0 is
/// alpha.
Tensor elu(const Operand& x, double alpha = 1);
/// x sigmoid(x).
Tensor silu(const Operand& x);
/// x between low and high; the gradient passes on the bounds themselves.
Tensor clamp(const Operand& x, double low, double high);
/// The same with one bound alone.
Tensor clamp_min(const Operand& x, double low);
Tensor clamp_max(const Operand& x, double high);

/// Gaussian error linear unit (Hendrycks and Gimpel, 2016): x Phi(x), Phi by erf, or by its tanh approximation.
enum class GeluApproximation { none, tanh };
Tensor gelu(const Operand& x, GeluApproximation approximate = GeluApproximation::none);

/// Rounding; gradient 0. `round` takes halves to even.
Tensor floor(const Operand& x);
Tensor ceil(const Operand& x);
Tensor round(const Operand& x);

// Comparisons, boolean, without gradient.
Tensor eq(const Operand& a, const Operand& b);
Tensor eq(const Operand& a, const Scalar& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Scalar& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Scalar& b);
Tensor le(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Scalar& b);
Tensor gt(const Operand& a, const Operand& b);
Tensor gt(const Operand& a, const Scalar& b);
Tensor ge(const Operand& a, const Operand& b);
Tensor ge(const Operand& a, const Scalar& b);
Tensor logical_and(const Operand& a, const Operand& b);
Tensor logical_or(const Operand& a, const Operand& b);
Tensor logical_xor(const Operand& a, const Operand& b);
Tensor logical_not(const Operand& x);
Tensor isnan(const Operand& x);
Tensor isfinite(const Operand& x);

/// The same shape, dtype aside, and the same values; NaN equals nothing.
bool equal(const Operand& a, const Operand& b);
/// |a - b| <= atol + rtol |b| everywhere, over the broadcast shape; false where either is NaN.
bool allclose(const Operand& a, const Operand& b, double rtol = 1e-5, double atol = 1e-8);

}  // namespace tapegrad
