// Elementwise operations. Operands broadcast by NumPy's rule and are promoted to a common dtype (boolean < int64 <
// float32 < float64); functions of one real argument turn integers into float32. g is the gradient of the result.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, const Scalar& b);
Tensor operator+(const Scalar& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Scalar& b);
Tensor operator-(const Scalar& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Scalar& b);
Tensor operator*(const Scalar& a, const Tensor& b);
/// Integers divide to float32. d/da = g / b, d/db = -g a / b^2.
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Scalar& b);
Tensor operator/(const Scalar& a, const Tensor& b);
Tensor operator-(const Tensor& a);

/// a^b. d/da = g b a^(b-1), 0 where b = 0, and where a = g = 0 and b < 1; d/db = g a^b log a, 0 where a = 0 and b >= 0.
Tensor pow(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Scalar& b);
Tensor pow(const Scalar& a, const Tensor& b);
/// The larger and the smaller of two; ties share the gradient half and half. NaN if either is NaN.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// a where `condition` is nonzero, b elsewhere.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b);
Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b);

/// a + weight (b - a), exactly a for weight 0 and exactly b for weight 1. d/da = g (1 - weight), d/db = g weight,
/// d/dweight = g (b - a).
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
Tensor lerp(const Tensor& a, const Tensor& b, double weight);

Tensor neg(const Tensor& x);
/// |x|; the gradient at 0 is 0.
Tensor abs(const Tensor& x);
/// -1, 0 or 1; gradient 0.
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
/// exp(x) - 1 without loss of digits near 0.
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
/// The gradient at 0 is +inf, and 0 where g is 0.
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
/// The angle in (-pi/2, pi/2); its derivative is 1 / (1 + x^2).
Tensor atan(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);
/// 1 / (1 + exp(-x)).
Tensor sigmoid(const Tensor& x);
/// log(1 + exp(x)), without overflow.
Tensor softplus(const Tensor& x);
/// max(x, 0); the gradient at 0 is 0.
Tensor relu(const Tensor& x);
/// x where x > 0, negative_slope x elsewhere; the gradient at 0 is negative_slope.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// Exponential linear unit (Clevert et al., 2015): x where x > 0, alpha (exp(x) - 1) elsewhere; the gradient at 0 is
/// alpha.
Tensor elu(const Tensor& x, double alpha = 1);
/// x sigmoid(x).
Tensor silu(const Tensor& x);
/// x between low and high; the gradient passes on the bounds themselves.
Tensor clamp(const Tensor& x, double low, double high);
/// The same with one bound alone.
Tensor clamp_min(const Tensor& x, double low);
Tensor clamp_max(const Tensor& x, double high);

/// Gaussian error linear unit (Hendrycks and Gimpel, 2016): x Phi(x), Phi by erf, or by its tanh approximation.
enum class GeluApproximation { none, tanh };
Tensor gelu(const Tensor& x, GeluApproximation approximate = GeluApproximation::none);

/// Rounding; gradient 0. `round` takes halves to even.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);

// Comparisons, boolean, without gradient.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, const Scalar& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Scalar& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Scalar& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Scalar& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Scalar& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Scalar& b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isfinite(const Tensor& x);

/// The same shape, dtype aside, and the same values; NaN equals nothing.
bool equal(const Tensor& a, const Tensor& b);
/// |a - b| <= atol + rtol |b| everywhere, over the broadcast shape; false where either is NaN.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);

}  // namespace tapegrad
