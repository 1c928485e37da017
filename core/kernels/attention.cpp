#include <tapegrad/core/kernels/attention.hpp>

#include <vector>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/attention_heads.hpp>

namespace tapegrad::core::kernels {
namespace {

/// The largest of the scores and the sum of exp(score - top), as far as a row has been read.
template <class T>
struct RunningSum {
  T top = kHidden<T>;
  T total = 0;
};

/// Scores become exp(score - top); returns the factor for all that was computed with the top before.
template <class T>
T absorb(RunningSum<T>& sum, T* scores, Range batches) {
  using Batch = xsimd::batch<T>;
  Batch tops(kHidden<T>);
  for (std::int64_t j = batches.begin; j < batches.end; j += kLanes<T>)
    tops = xsimd::max(tops, Batch::load_aligned(scores + j));
  const T top = std::max(sum.top, largest(tops));
  Batch total(T(0));
  for (std::int64_t j = batches.begin; j < batches.end; j += kLanes<T>) {
    const Batch score = Batch::load_aligned(scores + j);
    const Batch weight = top == kHidden<T> ? xsimd::select(score == Batch(top), Batch(T(0)), score)  // nothing, or NaN
                                           : weight_at<T>(Batch(top) - score);
    weight.store_aligned(scores + j);
    total += weight;
  }
  const T factor = sum.top == top ? T(1) : std::exp(sum.top - top);
  sum = {top, sum.total * factor + xsimd::hadd(total)};
  return factor;
}

/// One head, or some of its queries.
template <class T>
class Forward {
 public:
  Forward(const Head<T>& head, const Matrix<T>& output, T* stats, Range queries)
      : head_(head), output_(output), stats_(stats), queries_(queries) {}

  void run() {
    sums_.clear();
    const Range seen = head_.visible.of(queries_);
    for (std::int64_t first = seen.begin / kKeys * kKeys; first < seen.end; first += kKeys) {
      const Range keys{first, std::min(first + kKeys, head_.key.rows)};
      load_panels(head_.key, keys, panels_.data());
      values_.load(head_.value, keys);
      for (std::int64_t q = queries_.begin; q < queries_.end; q += kQueries)
        if (const Range some{q, std::min(q + kQueries, queries_.end)}; !head_.visible.of(some).within(keys).empty())
          add(Tile(head_.visible, some, keys));
    }
    finish();
  }

 private:
  void add(const Tile& tile) {
    if (tile.hidden) return;
    const auto groups = [&](std::int64_t g) { return tile.groups[g]; };
    some_queries_.load(head_.query, tile.queries);
    multiply_columns(head_.scale, tile.query_groups(), some_queries_.left(), panels_.data(), head_.query.columns, kKeys,
                     scores_.rows(), groups);
    const std::int64_t first = tile.queries.begin - queries_.begin;
    for (std::int64_t r = 0; r < tile.count(); ++r) {
      if (head_.bias.data) head_.add_bias(scores_.row(r), tile, r);
      const Range batches = hide(scores_.row(r), tile, r, head_.visible);
      const T factor = absorb(running_[static_cast<std::size_t>(first + r)], scores_.row(r), batches);
      if (factor != 1) sums_.scale(first + r, factor);
      if (head_.dropout > 0) {
        head_.factors(factors_.data(), tile.queries.begin + r, tile.keys.begin, batches.end);
        multiply_row(scores_.row(r), factors_.data(), batches);
      }
      clear_outside(scores_.row(r), tile, batches);
    }
    multiply_add(head_.visible.hides, scores_.left(), tile.count(), values_, tile.key_count(), sums_.rows(first),
                 groups);
  }

  void finish() {
    for (std::int64_t r = 0; r < queries_.end - queries_.begin; ++r) {
      const RunningSum<T>& sum = running_[static_cast<std::size_t>(r)];
      const T share = sum.total == 0 ? T(0) : T(1) / sum.total;
      sums_.scale(r, share);
      T* stats = stats_ + 2 * (queries_.begin + r);
      stats[0] = sum.total == 0 ? T(0) : sum.top;
      stats[1] = share;
    }
    sums_.store(output_, queries_);
  }

  Head<T> head_;
  Matrix<T> output_;
  T* stats_;
  Range queries_;
  Scratch<T> panels_{kKeys * head_.key.columns}, factors_{kKeys};
  Block<T> values_{kKeys, head_.value.columns}, some_queries_{kQueries, head_.query.columns}, scores_{kQueries, kKeys};
  Block<T> sums_{queries_.end - queries_.begin, head_.value.columns};
  std::vector<RunningSum<T>> running_ =
      std::vector<RunningSum<T>>(static_cast<std::size_t>(queries_.end - queries_.begin));
};

}  // namespace

AttentionOutput attention(const AttentionInputs& inputs) {
  const Heads heads(inputs);
  Shape shape = inputs.query.shape();
  Shape stats = shape;
  stats[shape.rank() - 1] = 2;
  shape[shape.rank() - 1] = inputs.value.shape().back();
  const AttentionOutput result{in_the_order_of(inputs.query, shape), Array(stats, inputs.query.dtype())};
  dispatch_floating("attention", inputs.query.dtype(), [&]<class T>(Type<T>) {
    heads.for_each(heads.queries(), kQueries, [&](std::int64_t h, Range queries) {
      Forward<T>(heads.head<T>(h), heads.matrix<T>(result.output, h), result.stats.data<T>() + 2 * h * heads.queries(),
                 queries)
          .run();
    });
  });
  return result;
}

}  // namespace tapegrad::core::kernels
