// Passes over a row of contiguous elements in SIMD batches. Private to the library.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <xsimd/xsimd.hpp>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

/// Rows that one task takes: enough of them to be worth a thread.
inline std::int64_t rows_per_task(std::int64_t width) {
  constexpr std::int64_t kElementsPerTask = 1 << 14;
  return std::max<std::int64_t>(1, kElementsPerTask / std::max<std::int64_t>(1, width));
}

template <class T>
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(xsimd::batch<T>::size);

/// f(i, count) for each batch of elements i ... i + count of a row; `count` is a constant for all but the last.
template <class T, class F>
void for_each_batch(std::int64_t size, F&& f) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) f(i, std::integral_constant<std::int64_t, kLanes<T>>{});
  if (i < size) f(i, size - i);
}

/// The batch of the `count` elements at `from`, filled up with `padding`.
template <class T, class Count>
xsimd::batch<T> load(const T* from, Count count, T padding = T(0)) {
  if constexpr (std::is_integral_v<Count>) {
    alignas(64) T lanes[kLanes<T>];
    std::fill(std::copy(from, from + count, lanes), lanes + kLanes<T>, padding);
    return xsimd::batch<T>::load_aligned(lanes);
  } else {
    return xsimd::batch<T>::load_unaligned(from);
  }
}

/// Writes the first `count` elements of `batch` to `to`.
template <class T, class Count>
void store(T* to, const xsimd::batch<T>& batch, Count count) {
  if constexpr (std::is_integral_v<Count>) {
    alignas(64) T lanes[kLanes<T>];
    batch.store_aligned(lanes);
    std::copy(lanes, lanes + count, to);
  } else {
    batch.store_unaligned(to);
  }
}

/// The largest element of `row`, -inf if there is none. A NaN may or may not win.
template <class T>
T row_max(const T* row, std::int64_t size) {
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  xsimd::batch<T> top(kNothing);
  for_each_batch<T>(size, [&](std::int64_t i, auto count) { top = xsimd::max(top, load(row + i, count, kNothing)); });
  alignas(64) T lanes[kLanes<T>];
  top.store_aligned(lanes);
  for (std::int64_t half = kLanes<T> / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i) lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
  return lanes[0];
}

}  // namespace tapegrad::core::kernels
