// Real functions on xsimd batches, where xsimd's own are not right everywhere, or do more work than is needed. Private
// to the library.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <xsimd/xsimd.hpp>

namespace tapegrad::core::kernels::simd {

template <class T>
using Batch = xsimd::batch<T>;

/// f on each element alone, for functions that have no vector form.
template <class T, class F>
Batch<T> each(const Batch<T>& x, F f) {
  alignas(64) T elements[Batch<T>::size];
  x.store_aligned(elements);
  for (T& element : elements) element = f(element);
  return Batch<T>::load_aligned(elements);
}

/// xsimd's exp is infinite and zero a little before the last numbers are reached: there exp(x/2)^2 serves.
template <class T>
Batch<T> exp(const Batch<T>& x) {
  const Batch<T> y = xsimd::exp(x);
  const auto at_end = (y == Batch<T>(0)) | (y == Batch<T>(std::numeric_limits<T>::infinity()));
  if (!xsimd::any(at_end)) return y;
  const Batch<T> root = xsimd::exp(x * T(0.5));
  return xsimd::select(at_end, root * root, y);
}

/// xsimd's log is wrong for denormal numbers of float64.
template <class T>
Batch<T> log(const Batch<T>& x) {
  const auto tiny = (x < Batch<T>(std::numeric_limits<T>::min())) & (x > Batch<T>(0));
  if (!xsimd::any(tiny)) return xsimd::log(x);
  constexpr T kScale = T(18014398509481984.0), kLogOfScale = T(37.42994775023704670);  // 2^54
  return xsimd::select(tiny, xsimd::log(x * kScale) - kLogOfScale, xsimd::log(x));
}

inline Batch<float> erf(const Batch<float>& x) { return xsimd::erf(x); }
/// xsimd's erf has only 14 digits.
inline Batch<double> erf(const Batch<double>& x) {
  return each(x, [](double element) { return std::erf(element); });
}
inline Batch<double> erfc(const Batch<double>& x) {
  return each(x, [](double element) { return std::erfc(element); });
}

/// c[0] + c[1] x + c[2] x^2 + ...
template <class T, std::size_t kTerms>
Batch<T> polynomial(const Batch<T>& x, const T (&c)[kTerms]) {
  Batch<T> y(c[kTerms - 1]);
  for (std::size_t i = kTerms - 1; i-- > 0;) y = xsimd::fma(y, x, Batch<T>(c[i]));
  return y;
}

/// |x|, but at most `end`. NaN stays NaN.
template <class T>
Batch<T> magnitude(const Batch<T>& x, T end) {
  const Batch<T> z = xsimd::abs(x);
  return xsimd::select(z > Batch<T>(end), Batch<T>(end), z);
}

/// As far as the decaying exponentials below may be asked: there they are exactly 0.
template <class T>
inline constexpr T kDecayEnd = std::is_same_v<T, float> ? 88 : 750;

/// An exponential in two factors: power (1 + excess).
struct Decay {
  Batch<float> power, excess;
};
/// exp(-s (x + rest)) for 0 <= s x <= kDecayEnd and a small `rest`, as 2^k exp(-s r) with s |r| about log(2) / 2 or
/// less; s is a constant and a power of two, so that it costs and changes nothing. The polynomial is the minimax one of
/// degree 6 for exp - 1, 1.8e-8 away, found by reweighted least squares. Powers less than 2^-126 are 0, by the
/// exponent's bits.
inline Decay decay(float s, const Batch<float>& x, const Batch<float>& rest = 0.0F) {
  constexpr float kLog2OfE = 1.44269504F, kLog2High = 0.693145752F, kLog2Low = 1.42860677e-6F;  // high: 17 bits
  constexpr float kRounder = 12582912 + 127;  // 1.5 2^23 and the exponent's bias: a sum's last bits are those of 2^k
  const Batch<float> rounded = xsimd::fma(x, Batch<float>(-s * kLog2OfE), Batch<float>(kRounder));
  const Batch<float> k = rounded - kRounder;
  const Batch<float> r = (x + k * (kLog2High / s)) + (rest + k * (kLog2Low / s));
  const Batch<float> curve =
      polynomial(r, {-s, 0.499999975F * s * s, -0.16666516F * s * s * s, 0.0416673194F * s * s * s * s,
                     -0.00837005592F * s * s * s * s * s, 0.001388185F * s * s * s * s * s * s});
  const auto power = xsimd::bitwise_cast<xsimd::batch<std::int32_t>>(rounded) << 23;
  return {xsimd::bitwise_cast<Batch<float>>(power), r * curve};
}

/// exp(-x) for 0 <= x <= kDecayEnd.
inline Batch<float> decaying_exp(const Batch<float>& x) {
  const Decay e = decay(1.0F, x);
  return xsimd::fma(e.power, e.excess, e.power);
}
inline Batch<double> decaying_exp(const Batch<double>& x) { return exp(-x); }

template <class T>
Batch<T> sigmoid(const Batch<T>& x) {
  const Batch<T> e = decaying_exp(magnitude(x, kDecayEnd<T>));
  return xsimd::select(x < Batch<T>(0), e, Batch<T>(1)) / (T(1) + e);
}

/// By e^-2|x| - 1, which loses no digits near 0.
inline Batch<float> tanh(const Batch<float>& x) {
  const Decay e = decay(2.0F, magnitude(x, kDecayEnd<float> / 2));
  const Batch<float> below_one = xsimd::fma(e.power, e.excess, e.power - 1.0F);
  return xsimd::copysign(below_one / (below_one + 2.0F), x);
}
inline Batch<double> tanh(const Batch<double>& x) { return xsimd::tanh(x); }

}  // namespace tapegrad::core::kernels::simd
