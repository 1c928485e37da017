// Symmetric distributions F, for the activations x F(x) (silu, gelu) and their derivatives F(x) + x F'(x). One
// exponential of z = |x| gives both F and F'. Private to the library.
#pragma once
#include <tapegrad/core/kernels/simd_math.hpp>

namespace tapegrad::core::kernels {

/// At z >= 0: 1 - F(z), which is F(-z), and F'(z).
template <class T>
struct Distribution {
  simd::Batch<T> tail, density;
};

/// sigmoid(z), from e = exp(-z): for both halves of its derivative, 1 / (1 + e) and e / (1 + e).
template <class T>
Distribution<T> sigmoid_of(const simd::Batch<T>& z, const simd::Batch<T>& slope) {
  const simd::Batch<T> e = simd::decaying_exp(z), body = T(1) / (T(1) + e), tail = e * body;
  return {tail, tail * body * slope};
}

/// F(x) = sigmoid(x).
struct Logistic {
  template <class T>
  static constexpr T kEnd = simd::kDecayEnd<T>;  // where the tail is 0

  template <class T>
  static Distribution<T> at(const simd::Batch<T>& z) {
    return sigmoid_of(z, simd::Batch<T>(1));
  }
};

/// F(x) = sigmoid(2u), which is 1/2 + tanh(u)/2, with u = sqrt(2 / pi) (x + 0.044715 x^3).
struct TanhNormal {
  template <class T>
  static constexpr T kEnd = std::is_same_v<T, float> ? 10.03 : 22;

  template <class T>
  static Distribution<T> at(const simd::Batch<T>& z) {
    constexpr T kScale = T(1.5957691216057307118), kCubic = T(1.5957691216057307118 * 0.044715);
    const simd::Batch<T> square = z * z;
    return sigmoid_of(z * (kScale + kCubic * square), kScale + (3 * kCubic) * square);
  }
};

/// F(x) = Phi(x).
struct Normal {
  template <class T>
  static constexpr T kEnd = std::is_same_v<T, float> ? 13.266 : 40;
  static constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;

  /// The tail is exp(-z^2 / 2) R(z), where R falls slowly (like 0.4 / z) and is here a quotient of polynomials. That is
  /// the best one of its degree for the relative error in 0 <= z <= 13.3, 5e-9, found by least squares on points dense
  /// at both ends, whose weights grew where the error was largest until it was the same all over; its coefficients are
  /// all positive, so that no digits cancel. z^2 must be exact, lest the exponential lose digits in the tail: `head`
  /// has 12 bits.
  static Distribution<float> at(const simd::Batch<float>& z) {
    using X = simd::Batch<float>;
    constexpr float kRounder = 49152;  // 1.5 2^15: sums are multiples of 2^-8
    const X head = (z + kRounder) - kRounder, rest = (z - head) * (z + head);
    const simd::Decay e = simd::decay(0.5F, head * head, rest);
    const X exponential = xsimd::fma(e.power, e.excess, e.power);
    const X above = simd::polynomial(z, {0.500000002F, 0.43568602F, 0.181306535F, 0.039984096F, 0.00402017902F});
    const X below = simd::polynomial(z, {1.0F, 1.66925696F, 1.19448329F, 0.464379741F, 0.100232647F, 0.0100769512F});
    return {exponential * (above / below), exponential * static_cast<float>(kInverseSqrtTwoPi)};
  }
  static Distribution<double> at(const simd::Batch<double>& z) {
    return {0.5 * simd::erfc(z * 0.70710678118654752440), kInverseSqrtTwoPi * simd::exp(-0.5 * (z * z))};
  }
};

}  // namespace tapegrad::core::kernels
