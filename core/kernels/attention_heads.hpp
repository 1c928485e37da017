// The heads of attention's operands, and how they are shared out among threads. Private to the library.
#pragma once
#include <tapegrad/core/kernels/attention.hpp>
#include <tapegrad/core/kernels/attention_tile.hpp>
#include <tapegrad/core/kernels/batches.hpp>
#include <tapegrad/core/kernels/dropout.hpp>

namespace tapegrad::core::kernels {

template <class T>
struct Head {
  Matrix<const T> query, key, value;
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
  bool few() const { return count_ < kFew && std::max(queries(), keys()) > kQueries; }

  /// Head number `h` of an array with the same leading dimensions.
  template <class T>
  Matrix<T> matrix(const Array& array, std::int64_t h) const {
    const int rank = array.rank();
    return {array.data<std::remove_const_t<T>>() + batch_offset(h, batch_, array.strides()), array.size(rank - 2),
            array.size(rank - 1), array.strides()[rank - 2]};
  }
  template <class T>
  Head<T> head(std::int64_t h) const {
    Visibility visible{queries(), keys(), inputs_.causal, nullptr, 0, 0};
    if (const Array& mask = inputs_.mask; mask.defined()) {
      visible.mask = mask.data<bool>() + batch_offset(h, batch_, mask.strides());
      visible.mask_row = mask.strides()[mask.rank() - 2];
      visible.mask_column = mask.strides()[mask.rank() - 1];
    }
    return {matrix<const T>(inputs_.query, h),
            matrix<const T>(inputs_.key, h),
            matrix<const T>(inputs_.value, h),
            visible,
            static_cast<T>(inputs_.scale),
            inputs_.dropout,
            inputs_.random,
            h};
  }

  /// f(h, range) for every head, with all of [0, size), or with parts of it (multiples of `multiple`) if heads are few.
  template <class F>
  void for_each(std::int64_t size, std::int64_t multiple, F&& f) const {
    const std::int64_t wanted = few() ? (2 * kFew + count_ - 1) / std::max<std::int64_t>(1, count_) : 1;
    const std::int64_t part = round_up((size + wanted - 1) / wanted, multiple);
    const std::int64_t parts = std::max<std::int64_t>(1, (size + part - 1) / std::max<std::int64_t>(1, part));
    parallel_ranges(count_ * parts, heads_per_task(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        f(i / parts, Range{i % parts * part, std::min(size, (i % parts + 1) * part)});
    });
  }

 private:
  static constexpr std::int64_t kFew = 8;
  std::int64_t heads_per_task() const;

  AttentionInputs inputs_;
  Shape batch_;
  std::int64_t count_;
};

}  // namespace tapegrad::core::kernels
