// Products of matrices that fit the caches of one core, for kernels that fuse them with other work: a group of rows by
// a panel of columns at a time, whose sums stay in registers. Private to the library.
#pragma once
#include <tapegrad/core/kernels/band.hpp>
#include <tapegrad/core/kernels/rows.hpp>

namespace tapegrad::core::kernels {

/// Rows of a group. With kPanelBatches batches of columns their sums fill most of the registers that there are.
inline constexpr int kGroup = 6;
template <class T>
inline constexpr int kPanelBatches = sizeof(xsimd::batch<T>) == 64 ? 4 : 2;
template <class T>
inline constexpr std::int64_t kPanel = kPanelBatches<T>* kLanes<T>;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// A left operand: element (i, k) stands at data[i * row + k * column].
template <class T>
struct Left {
  const T* data;
  std::int64_t row, column;

  Left at(std::int64_t i, std::int64_t k) const { return {data + i * row + k * column, row, column}; }
};
/// A right operand or a result, aligned: element (k, j) stands at data[k * row + j].
template <class T>
struct Rows {
  T* data;
  std::int64_t row;
};

/// c = factor a b, or c += a b, for one group of rows and kBatches batches of columns. (The factor comes last:
/// an operand times it could overflow where the product does not.)
template <int kBatches, class T>
void multiply_group(Left<T> a, Rows<const T> b, std::int64_t depth, Rows<T> c, bool accumulate, T factor) {
  using Batch = xsimd::batch<T>;
  Batch sums[kGroup][kBatches];
#pragma GCC unroll 6
  for (int i = 0; i < kGroup; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kBatches; ++j) sums[i][j] = Batch(T(0));
  for (std::int64_t k = 0; k < depth; ++k) {
    Batch row[kBatches];
#pragma GCC unroll 4
    for (int j = 0; j < kBatches; ++j) row[j] = Batch::load_aligned(b.data + k * b.row + j * kLanes<T>);
#pragma GCC unroll 6
    for (int i = 0; i < kGroup; ++i) {
      const Batch element(a.data[i * a.row + k * a.column]);
#pragma GCC unroll 4
      for (int j = 0; j < kBatches; ++j) sums[i][j] = xsimd::fma(element, row[j], sums[i][j]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kGroup; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kBatches; ++j) {
      T* to = c.data + i * c.row + j * kLanes<T>;
      (accumulate ? Batch::load_aligned(to) + sums[i][j] : Batch(factor) * sums[i][j]).store_aligned(to);
    }
}

/// The same for 1 to kPanelBatches batches.
template <class T>
void multiply_group(std::int64_t batches, Left<T> a, Rows<const T> b, std::int64_t depth, Rows<T> c, bool accumulate,
                    T factor = T(1)) {
  if constexpr (kPanelBatches<T> == 4) {
    if (batches == 4) return multiply_group<4>(a, b, depth, c, accumulate, factor);
    if (batches == 3) return multiply_group<3>(a, b, depth, c, accumulate, factor);
  }
  if (batches == 2) return multiply_group<2>(a, b, depth, c, accumulate, factor);
  multiply_group<1>(a, b, depth, c, accumulate, factor);
}

/// c = factor a b for the columns wanted(group) of each group of rows (and those that share a batch with them).
/// `panels`: b cut into panels of kPanel columns, one behind the other.
template <class T, class Wanted>
void multiply_columns(T factor, std::int64_t groups, Left<T> a, const T* panels, std::int64_t depth,
                      std::int64_t columns, Rows<T> c, Wanted wanted) {
  for (std::int64_t first = 0; first < columns; first += kPanel<T>)
    for (std::int64_t g = 0; g < groups; ++g) {
      const Range range = wanted(g).within({first, std::min(columns, first + kPanel<T>)});
      if (range.empty()) continue;
      const std::int64_t begin = range.begin / kLanes<T> * kLanes<T>;
      multiply_group((range.end - begin + kLanes<T> - 1) / kLanes<T>, a.at(g * kGroup, 0),
                     Rows<const T>{panels + first * depth + (begin - first), kPanel<T>}, depth,
                     Rows<T>{c.data + g * kGroup * c.row + begin, c.row}, false, factor);
    }
}

/// c += a b, where group g of a's rows is zero outside the columns wanted(g), and both have `depth` of them.
template <class T, class Wanted>
void multiply_add(std::int64_t groups, Left<T> a, Rows<const T> b, std::int64_t depth, std::int64_t columns, Rows<T> c,
                  Wanted wanted) {
  constexpr std::int64_t kDepth = 128;  // a panel of b so deep fits the first cache
  for (std::int64_t first = 0; first < columns; first += kPanel<T>) {
    const std::int64_t batches = std::min(kPanelBatches<T> * 1L, (columns - first + kLanes<T> - 1) / kLanes<T>);
    for (std::int64_t k = 0; k < depth; k += kDepth)
      for (std::int64_t g = 0; g < groups; ++g) {
        const Range range = wanted(g).within({k, std::min(depth, k + kDepth)});
        if (range.empty()) continue;
        multiply_group(batches, a.at(g * kGroup, range.begin),
                       Rows<const T>{b.data + range.begin * b.row + first, b.row}, range.end - range.begin,
                       Rows<T>{c.data + g * kGroup * c.row + first, c.row}, true);
      }
  }
}

/// The same where b holds numbers that are not finite: an element of a that is zero counts for nothing.
template <class T>
void multiply_add_nonzero(std::int64_t rows, Left<T> a, Rows<const T> b, std::int64_t depth, std::int64_t columns,
                          Rows<T> c) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < depth; ++k)
      if (const T element = *a.at(i, k).data; element != 0)
        for (std::int64_t j = 0; j < columns; ++j) c.data[i * c.row + j] += element * b.data[k * b.row + j];
}

}  // namespace tapegrad::core::kernels
