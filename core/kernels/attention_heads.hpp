// The heads of attention's operands, and how they are shared out among threads. Private to the library.
#pragma once
#include <vector>

#include <tapegrad/core/kernels/attention.hpp>
#include <tapegrad/core/kernels/attention_tile.hpp>
#include <tapegrad/core/kernels/batches.hpp>
#include <tapegrad/core/kernels/dropout.hpp>

namespace tapegrad::core::kernels {

template <class T>
struct Head {
  Matrix<const T> query, key, value;
  Pairs<const T> bias;
  Visibility visible;
  T scale;
  double dropout;
  RandomState random;
  std::int64_t number;  // among all heads

  /// What dropout multiplies the weights of a query with, for `count` keys from `first_key` on.
  void factors(T* result, std::int64_t query_number, std::int64_t first_key, std::int64_t count) const {
    const std::int64_t row = number * query.rows + query_number;
    dropout_factors(result, row * key.rows + first_key, count, dropout, random);
  }
  /// Adds the bias to row r of the tile's scores.
  void add_bias(T* scores, const Tile& tile, std::int64_t r) const {
    const T* more = bias.at(tile.queries.begin + r, tile.keys.begin);
    for (std::int64_t j = tile.rows[r].begin; j < tile.rows[r].end; ++j) {
      const T b = more[j * bias.column];
      scores[j] = b == kHidden<T> ? b : scores[j] + b;
    }
  }
};

/// A new array whose dimensions lie in memory in the order of those of `pattern`, if its last one is the innermost.
Array in_the_order_of(const Array& pattern, const Shape& shape);
/// The array itself if its last dimension has unit stride, else a copy.
Array with_adjacent_columns(const Array& array);

class Heads {
 public:
  explicit Heads(AttentionInputs inputs);

  const AttentionInputs& inputs() const { return inputs_; }
  std::int64_t queries() const { return inputs_.query.size(inputs_.query.rank() - 2); }
  std::int64_t keys() const { return inputs_.key.size(inputs_.key.rank() - 2); }
  /// So few that a task must be less than a head.
  bool few() const { return are_few(count_); }

  /// Head number `h` of an array with the same leading dimensions.
  template <class T>
  Matrix<T> matrix(const Array& array, std::int64_t h) const {
    const int rank = array.rank();
    return {array.data<std::remove_const_t<T>>() + batch_offset(h, batch_, array.strides()), array.size(rank - 2),
            array.size(rank - 1), array.strides()[rank - 2]};
  }
  template <class T>
  Head<T> head(std::int64_t h) const {
    const Array &bias = inputs_.bias, &mask = inputs_.mask, &lengths = inputs_.lengths;
    Visibility visible{queries(), keys(), keys(), inputs_.band, inputs_.hides(), {}};
    if (lengths.defined()) visible.length = lengths.data<std::int64_t>()[batch_offset(h, batch_, lengths.strides())];
    if (mask.defined()) visible.mask = pairs<const bool>(mask, h);
    return {matrix<const T>(inputs_.query, h),
            matrix<const T>(inputs_.key, h),
            matrix<const T>(inputs_.value, h),
            bias.defined() ? pairs<const T>(bias, h) : Pairs<const T>{},
            visible,
            static_cast<T>(inputs_.scale),
            inputs_.dropout,
            inputs_.random,
            h};
  }
  /// Head number `h` of an array [..., L, S] with the same leading dimensions.
  template <class T>
  Pairs<T> pairs(const Array& array, std::int64_t h) const {
    const int rank = array.rank();
    return {array.data<std::remove_const_t<T>>() + batch_offset(h, batch_, array.strides()), array.strides()[rank - 2],
            array.strides()[rank - 1]};
  }
  /// [..., L, S]
  Shape scores() const;

  /// f(h, range) for every head, with all of [0, size), or with parts of it (multiples of `multiple`) if heads are few.
  template <class F>
  void for_each(std::int64_t size, std::int64_t multiple, F&& f) const {
    for_each_of(count_, size, multiple, std::forward<F>(f));
  }
  /// The same for other things than heads, `count` of them.
  template <class F>
  void for_each_of(std::int64_t count, std::int64_t size, std::int64_t multiple, F&& f) const {
    const std::int64_t wanted = are_few(count) ? (2 * kFew + count - 1) / std::max<std::int64_t>(1, count) : 1;
    const std::int64_t part = round_up((size + wanted - 1) / wanted, multiple);
    const std::int64_t parts = std::max<std::int64_t>(1, (size + part - 1) / std::max<std::int64_t>(1, part));
    parallel_ranges(count * parts, heads_per_task(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        f(i / parts, Range{i % parts * part, std::min(size, (i % parts + 1) * part)});
    });
  }
  /// The heads, sorted by the matrix [rows, columns] of `shared` that they have; it broadcasts to the scores.
  std::vector<std::vector<std::int64_t>> sharing(const Array& shared) const;

 private:
  static constexpr std::int64_t kFew = 8;
  bool are_few(std::int64_t count) const { return count < kFew && std::max(queries(), keys()) > kQueries; }
  std::int64_t heads_per_task() const;

  AttentionInputs inputs_;
  Shape batch_;
  std::int64_t count_;
};

}  // namespace tapegrad::core::kernels
