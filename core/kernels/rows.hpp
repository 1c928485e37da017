// Passes over a row of contiguous elements in SIMD batches. Private to the library.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <xsimd/xsimd.hpp>

#include <tapegrad/core/array.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core::kernels {

inline constexpr std::int64_t kElementsPerTask = 1 << 14;  // enough to be worth a thread

inline std::int64_t rows_per_task(std::int64_t width, std::int64_t elements = kElementsPerTask) {
  return std::max<std::int64_t>(1, elements / std::max<std::int64_t>(1, width));
}

/// f(row) for each of `rows` rows of `width` elements, in parallel; a task takes about so many elements.
template <class F>
void for_each_row(std::int64_t rows, std::int64_t width, F&& f, std::int64_t elements = kElementsPerTask) {
  // Not inlined: then there is one call of f, which compilers do inline, loop and all.
  const auto loop = [&](std::int64_t begin, std::int64_t end) __attribute__((noinline)) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  };
  parallel_ranges(rows, rows_per_task(width, elements), loop);
}

/// The first element of an array that may be undefined.
template <class T>
T* data_or_null(const Array& array) {
  return array.defined() ? array.data<T>() : nullptr;
}

template <class T>
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(xsimd::batch<T>::size);

/// f(i, count) for each batch of elements i ... i + count of a row; `count` is a constant for all but the last.
template <class T, class F>
[[gnu::always_inline]] inline void for_each_batch(std::int64_t size, F&& f) {
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

/// a if `chosen`, or if it is NaN; b else (which may be NaN too). Numbers or batches.
template <class X, class C>
X choose(const C& chosen, const X& a, const X& b) {
  if constexpr (std::is_arithmetic_v<X>)
    return chosen || a != a ? a : b;
  else
    return xsimd::select(chosen | xsimd::isnan(a), a, b);  // xsimd's a != a is false for NaN
}

/// The largest lane. A NaN may or may not win.
template <class T>
T largest(const xsimd::batch<T>& batch) {
  using Lanes [[gnu::vector_size(sizeof(batch))]] = T;
  Lanes lanes;
  std::memcpy(&lanes, &batch, sizeof lanes);
  const auto with_those_at = [&]<int kDistance, int... i>(std::integral_constant<int, kDistance>,
                                                          std::integer_sequence<int, i...>) {
    const Lanes others = __builtin_shufflevector(lanes, lanes, (i + kDistance)...);
    lanes = lanes > others ? lanes : others;
  };
  constexpr std::make_integer_sequence<int, static_cast<int>(kLanes<T>)> kAll;
  if constexpr (kLanes<T> >= 16) with_those_at(std::integral_constant<int, 8>(), kAll);
  if constexpr (kLanes<T> >= 8) with_those_at(std::integral_constant<int, 4>(), kAll);
  if constexpr (kLanes<T> >= 4) with_those_at(std::integral_constant<int, 2>(), kAll);
  with_those_at(std::integral_constant<int, 1>(), kAll);
  return lanes[0];
}

/// The largest element of `row`, -inf if there is none. A NaN may or may not win.
template <class T>
T row_max(const T* row, std::int64_t size) {
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  xsimd::batch<T> top(kNothing);
  for_each_batch<T>(size, [&](std::int64_t i, auto count) { top = xsimd::max(top, load(row + i, count, kNothing)); });
  return largest(top);
}

/// The logarithm of sum(exp(x - top)) over a row x.
template <class T>
T log_sum_exp_below(T top, const T* row, std::int64_t size) {
  xsimd::batch<T> tops(top), total(T(0));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    total += xsimd::exp(load(row + i, count, -std::numeric_limits<T>::infinity()) - tops);
  });
  return std::log(xsimd::hadd(total));
}

}  // namespace tapegrad::core::kernels
