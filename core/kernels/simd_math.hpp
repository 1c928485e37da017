// Real functions on xsimd batches, where xsimd's own are not right everywhere. Private to the library.
#pragma once
#include <cmath>
#include <limits>

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

inline Batch<float> erf(const Batch<float>& x) {
  return xsimd::erf(x);
}
/// xsimd's erf has only 14 digits.
inline Batch<double> erf(const Batch<double>& x) {
  return each(x, [](double element) { return std::erf(element); });
}

template <class T>
Batch<T> sigmoid(const Batch<T>& x) {
  return T(1) / (T(1) + exp(-x));
}

}  // namespace tapegrad::core::kernels::simd
