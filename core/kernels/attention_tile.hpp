// What the forward and the backward pass of fused attention share: which pairs a tile shows, operands copied to where
// products want them, and scores turned into weights, row by row. Private to the library.
#pragma once
#include <array>
#include <cstring>

#include <tapegrad/core/kernels/attention.hpp>
#include <tapegrad/core/kernels/simd_math.hpp>
#include <tapegrad/core/kernels/tile_product.hpp>
#include <tapegrad/core/kernels/transpose.hpp>

namespace tapegrad::core::kernels {

/// A tile: so many queries by so many keys. All that it needs fits the second cache.
inline constexpr std::int64_t kQueries = 96, kKeys = 192;

/// One head of an operand; its columns are adjacent.
template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, columns, row_stride;
};

/// Elements of the scores' shape, of one head; no data if there are none.
template <class T>
struct Pairs {
  T* data = nullptr;
  std::int64_t row = 0, column = 0;

  T* at(std::int64_t query, std::int64_t key) const { return data + query * row + key * column; }
};

/// Memory of one task.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t elements) : array_({elements}, dtype_of<T>) {}
  T* data() const { return array_.data<T>(); }
  void clear() const { std::fill_n(data(), array_.numel(), T(0)); }

 private:
  Array array_;
};

/// Rows of an operand, copied to aligned and padded rows.
template <class T>
class Block {
 public:
  Block(std::int64_t rows, std::int64_t columns)
      : row_(round_up(columns, kLanes<T>)), columns_(columns), memory_(round_up(rows, kGroup) * row_) {}

  void load(const Matrix<const T>& from, Range range) {
    const xsimd::batch<T> zero(T(0));
    xsimd::batch<T> sum = zero;  // of zeros and NaNs
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const T* in = from.data + r * from.row_stride;
      for_each_batch<T>(columns_, [&](std::int64_t j, auto count) {
        const xsimd::batch<T> elements = kernels::load(in + j, count);
        sum = xsimd::fma(elements, zero, sum);
        elements.store_aligned(row(r - range.begin) + j);
      });
    }
    const std::int64_t rows = range.end - range.begin;
    std::fill(memory_.data() + rows * row_, memory_.data() + round_up(rows, kGroup) * row_, T(0));
    finite_ = xsimd::hadd(sum) == 0;
  }
  void clear() { memory_.clear(); }
  void scale(std::int64_t r, T factor) const {
    for (std::int64_t j = 0; j < row_; ++j) row(r)[j] *= factor;
  }
  void store(const Matrix<T>& to, Range range, T scale = T(1)) const {
    for (std::int64_t r = range.begin; r < range.end; ++r)
      for (std::int64_t j = 0; j < columns_; ++j)
        to.data[r * to.row_stride + j] = memory_.data()[(r - range.begin) * row_ + j] * scale;
  }

  T* row(std::int64_t r) const { return memory_.data() + r * row_; }
  std::int64_t columns() const { return columns_; }
  Left<T> left() const { return {memory_.data(), row_, 1}; }
  Left<T> transposed() const { return {memory_.data(), 1, row_}; }
  Rows<T> rows(std::int64_t first = 0) const { return {row(first), row_}; }
  bool finite() const { return finite_; }

 private:
  std::int64_t row_, columns_;
  Scratch<T> memory_;
  bool finite_ = true;
};

/// Rows `range` of `from`, transposed, in panels for multiply_columns.
template <class T>
void load_panels(const Matrix<const T>& from, Range range, T* panels) {
  for (std::int64_t first = range.begin; first < range.end; first += kPanel<T>) {
    const std::int64_t width = std::min(kPanel<T>, range.end - first);
    T* panel = panels + (first - range.begin) * from.columns;
    transpose_strip(panel, kPanel<T>, from.data + first * from.row_stride, from.row_stride, from.columns, width);
    for (std::int64_t k = 0; k < from.columns && width < kPanel<T>; ++k)
      std::fill(panel + k * kPanel<T> + width, panel + (k + 1) * kPanel<T>, T(0));
  }
}

/// Which keys a query of one head sees.
struct Visibility {
  std::int64_t queries, keys;
  std::int64_t length;  // keys from here on are hidden
  Band band;
  bool hides;  // some pairs: what stands there must not be seen through zero times NaN
  Pairs<const bool> mask;

  /// Of all of these queries together, but for the mask.
  Range of(Range some) const { return some.empty() ? Range{} : band.keys_of(some, queries, keys).within({0, length}); }
  /// Of one query, among `some` keys: from the first that the mask allows to the last.
  Range of(std::int64_t query, Range some) const {
    Range seen = of({query, query + 1}).within(some);
    if (!mask.data || seen.empty()) return seen;
    const bool* allowed = mask.at(query, 0);
    if (mask.column == 1) {
      const void* first = std::memchr(allowed + seen.begin, true, static_cast<std::size_t>(seen.end - seen.begin));
      seen.begin = first ? static_cast<const bool*>(first) - allowed : seen.end;
    }
    while (!seen.empty() && !allowed[seen.begin * mask.column]) ++seen.begin;
    while (!seen.empty() && !allowed[(seen.end - 1) * mask.column]) --seen.end;
    return seen;
  }
};

/// Queries by keys, and which of the keys (counted within the tile) each row and each group of rows sees.
struct Tile {
  Range queries, keys;
  Range rows[kQueries], groups[kQueries / kGroup];
  bool hidden = true;  // altogether: there is nothing to compute

  Tile(const Visibility& visible, Range tile_queries, Range tile_keys) : queries(tile_queries), keys(tile_keys) {
    for (std::int64_t r = 0; r < count(); ++r) {
      const Range seen = visible.of(queries.begin + r, keys);
      rows[r] = seen.empty() ? Range{} : Range{seen.begin - keys.begin, seen.end - keys.begin};
      groups[r / kGroup] = r % kGroup == 0 ? rows[r] : groups[r / kGroup].joined(rows[r]);
      hidden = hidden && seen.empty();
    }
  }
  std::int64_t count() const { return queries.end - queries.begin; }
  std::int64_t query_groups() const { return (count() + kGroup - 1) / kGroup; }
  std::int64_t key_count() const { return keys.end - keys.begin; }
  /// The rows that see one of the keys of a group.
  Range seeing(std::int64_t group) const {
    const Range wanted{group * kGroup, (group + 1) * kGroup};
    Range result{0, query_groups()};
    while (!result.empty() && groups[result.begin].within(wanted).empty()) ++result.begin;
    while (!result.empty() && groups[result.end - 1].within(wanted).empty()) --result.end;
    return {result.begin * kGroup, std::min(result.end * kGroup, count())};
  }
};

template <class T>
inline constexpr T kHidden = -std::numeric_limits<T>::infinity();

/// The lanes from `begin` to `end` of the batch at `scores` become -inf.
template <class T>
void hide_lanes(T* scores, std::int64_t begin, std::int64_t end) {
  using Batch = xsimd::batch<T>;
  alignas(64) static constexpr auto kNumbers = [] {
    std::array<T, static_cast<std::size_t>(kLanes<T>)> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(i);
    return numbers;
  }();
  const Batch lane = Batch::load_aligned(kNumbers.data());
  const auto hidden = (lane >= Batch(static_cast<T>(begin))) & (lane < Batch(static_cast<T>(end)));
  xsimd::select(hidden, Batch(kHidden<T>), Batch::load_aligned(scores)).store_aligned(scores);
}

/// Scores that the row doesn't see become -inf, as far as its batches reach; the batches are returned.
template <class T>
Range hide(T* scores, const Tile& tile, std::int64_t r, const Visibility& visible) {
  const Range seen = tile.rows[r];
  const Range batches{seen.begin / kLanes<T> * kLanes<T>, round_up(seen.end, kLanes<T>)};
  if (batches.begin < seen.begin) hide_lanes(scores + batches.begin, 0, seen.begin - batches.begin);
  if (seen.end < batches.end)
    hide_lanes(scores + batches.end - kLanes<T>, seen.end - batches.end + kLanes<T>, kLanes<T>);
  if (visible.mask.data) {
    const bool* allowed = visible.mask.at(tile.queries.begin + r, tile.keys.begin);
    if (visible.mask.column == 1)  // a loop of its own, which is vectorised
      for (std::int64_t j = seen.begin; j < seen.end; ++j) scores[j] = allowed[j] ? scores[j] : kHidden<T>;
    else
      for (std::int64_t j = seen.begin; j < seen.end; ++j)
        scores[j] = allowed[j * visible.mask.column] ? scores[j] : kHidden<T>;
  }
  return batches;
}

template <class T>
void multiply_row(T* row, const T* factors, Range batches) {
  for (std::int64_t j = batches.begin; j < batches.end; ++j) row[j] *= factors[j];
}

/// Zeros wherever a product reads the row outside the batches that it sees.
template <class T>
void clear_outside(T* row, const Tile& tile, Range batches) {
  const xsimd::batch<T> zero(T(0));
  const std::int64_t end = round_up(tile.key_count(), kGroup);
  for (std::int64_t j = 0; j < batches.begin; j += kLanes<T>) zero.store_aligned(row + j);
  for (std::int64_t j = batches.end; j < end; j += kLanes<T>) zero.store_aligned(row + j);
}

/// c += a b; `wanted(group)`: the columns of a's group that are not zero. `guarded`: elements of a that are zero count
/// for nothing, whatever stands in b.
template <class T, class Wanted>
void multiply_add(bool guarded, Left<T> a, std::int64_t rows, const Block<T>& b, std::int64_t depth, Rows<T> c,
                  Wanted wanted) {
  const Rows<const T> right{b.row(0), b.rows().row};
  if (!guarded || b.finite())
    multiply_add((rows + kGroup - 1) / kGroup, a, right, depth, b.columns(), c, wanted);
  else
    multiply_add_nonzero(rows, a, right, depth, b.columns(), c);
}

/// exp(-distance) for a distance that is not negative, but for rounding; 0 from far away.
template <class T>
xsimd::batch<T> weight_at(const xsimd::batch<T>& distance) {
  const xsimd::batch<T> end(simd::kDecayEnd<T>);
  return simd::decaying_exp(xsimd::select(distance > end, end, distance));
}

}  // namespace tapegrad::core::kernels
