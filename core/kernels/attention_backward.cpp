#include <vector>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/attention_heads.hpp>
#include <tapegrad/core/kernels/kernels.hpp>

namespace tapegrad::core::kernels {
namespace {

/// Of one head: what comes in, and where the gradients go (data is null where nobody wants them).
template <class T>
struct HeadGradients {
  Matrix<const T> gradient, output;
  const T* stats;
  Matrix<T> query, key, value;
  Pairs<T> bias;

  /// dS, and not P alone.
  bool needs_slopes() const { return query.data || key.data || bias.data; }
};

template <class T>
T dot(const T* a, const T* b, std::int64_t size) {
  xsimd::batch<T> total(T(0));
  for_each_batch<T>(
      size, [&](std::int64_t i, auto count) { total = xsimd::fma(load(a + i, count), load(b + i, count), total); });
  return xsimd::hadd(total);
}

/// P = exp(scores - largest) / sum and dS = P (dP - sum(P dP)), for some queries by some keys of one head; then
/// dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO, and dS for the bias, where sum(P dP) = sum(dO O) in each row.
/// Dropout multiplies dP, and P in dV, with its factors.
template <class T>
class Backward {
 public:
  Backward(const Head<T>& head, const HeadGradients<T>& of, Range queries) : head_(head), of_(of), queries_(queries) {
    for (std::int64_t q = queries.begin; q < queries.end; ++q)
      sums_[static_cast<std::size_t>(q - queries.begin)] = dot(
          of.gradient.data + q * of.gradient.row_stride, of.output.data + q * of.output.row_stride, of.output.columns);
  }

  void run(Range wanted_keys) {
    query_.clear();
    const Range seen = head_.visible.of(queries_).within(wanted_keys);
    for (std::int64_t first = wanted_keys.begin; first < wanted_keys.end; first += kKeys) {
      const Range keys{first, std::min(first + kKeys, wanted_keys.end)};
      key_.clear();
      value_.clear();
      if (!seen.within(keys).empty()) add(keys);
      if (of_.key.data) key_.store(of_.key, keys, head_.scale);
      if (of_.value.data) value_.store(of_.value, keys);
    }
    if (of_.query.data) query_.store(of_.query, queries_, head_.scale);
  }

 private:
  void add(Range keys) {
    load_panels(head_.key, keys, key_panels_.data());
    if (of_.needs_slopes()) load_panels(head_.value, keys, value_panels_.data());
    if (of_.query.data) keys_.load(head_.key, keys);
    for (std::int64_t q = queries_.begin; q < queries_.end; q += kQueries)
      if (const Range some{q, std::min(q + kQueries, queries_.end)}; !head_.visible.of(some).within(keys).empty())
        add(Tile(head_.visible, some, keys));
  }

  void add(const Tile& tile) {
    if (tile.hidden) return;
    const auto groups = [&](std::int64_t g) { return tile.groups[g]; };
    const auto seeing = [&](std::int64_t g) { return tile.seeing(g); };
    const bool guarded = head_.visible.hides;
    some_queries_.load(head_.query, tile.queries);
    gradients_.load(of_.gradient, tile.queries);
    multiply_columns(head_.scale, tile.query_groups(), some_queries_.left(), key_panels_.data(), head_.key.columns,
                     kKeys, weights_.rows(), groups);
    if (of_.needs_slopes()) {
      multiply_columns(T(1), tile.query_groups(), gradients_.left(), value_panels_.data(), head_.value.columns, kKeys,
                       slopes_.rows(), groups);
      for (std::int64_t r = 0; r < tile.count(); ++r) differentiate<true>(tile, r);
    } else {
      for (std::int64_t r = 0; r < tile.count(); ++r) differentiate<false>(tile, r);
    }
    if (of_.query.data)
      multiply_add(guarded, slopes_.left(), tile.count(), keys_, tile.key_count(),
                   query_.rows(tile.queries.begin - queries_.begin), groups);
    if (of_.key.data)
      multiply_add(guarded, slopes_.transposed(), tile.key_count(), some_queries_, tile.count(), key_.rows(), seeing);
    if (of_.value.data)
      multiply_add(guarded, weights_.transposed(), tile.key_count(), gradients_, tile.count(), value_.rows(), seeing);
  }

  /// Row r of the scores becomes P, and that of dP becomes dS if it is wanted.
  template <bool kSlopes>
  void differentiate(const Tile& tile, std::int64_t r) {
    using Batch = xsimd::batch<T>;
    T *scores = weights_.row(r), *slopes = slopes_.row(r);
    if (head_.bias.data) head_.add_bias(scores, tile, r);
    const Range batches = hide(scores, tile, r, head_.visible);
    const std::int64_t query = tile.queries.begin + r;
    if (head_.dropout > 0) {
      head_.factors(factors_.data(), query, tile.keys.begin, batches.end);
      if (kSlopes) multiply_row(slopes, factors_.data(), batches);
    }
    const Batch top(of_.stats[2 * query]), share(of_.stats[2 * query + 1]),
        sum(sums_[static_cast<std::size_t>(query - queries_.begin)]), none(T(0));
    for (std::int64_t j = batches.begin; j < batches.end; j += kLanes<T>) {
      const Batch score = Batch::load_aligned(scores + j);
      const Batch weight = xsimd::select(score == Batch(kHidden<T>), none, weight_at<T>(top - score) * share);
      weight.store_aligned(scores + j);
      if constexpr (kSlopes) {
        const Batch slope = weight * (Batch::load_aligned(slopes + j) - sum);
        xsimd::select(weight == none, none, slope).store_aligned(slopes + j);
      }
    }
    if (head_.dropout > 0) multiply_row(scores, factors_.data(), batches);
    clear_outside(scores, tile, batches);
    if (kSlopes) clear_outside(slopes, tile, batches);
    if (of_.bias.data) add_to_bias(tile, r);
  }

  void add_to_bias(const Tile& tile, std::int64_t r) {
    const T* slopes = slopes_.row(r);
    T* to = of_.bias.at(tile.queries.begin + r, tile.keys.begin);
    const Range seen = tile.rows[r];
    for (std::int64_t j = seen.begin; j < seen.end; ++j) to[j * of_.bias.column] += slopes[j];
  }

  Head<T> head_;
  HeadGradients<T> of_;
  Range queries_;
  Scratch<T> key_panels_{kKeys * head_.key.columns}, value_panels_{kKeys * head_.value.columns}, factors_{kKeys};
  Block<T> keys_{of_.query.data ? kKeys : 0, head_.key.columns}, some_queries_{kQueries, head_.query.columns},
      gradients_{kQueries, head_.value.columns}, weights_{kQueries, kKeys}, slopes_{kQueries, kKeys};
  Block<T> query_{of_.query.data ? queries_.end - queries_.begin : 0, head_.query.columns},
      key_{of_.key.data ? kKeys : 0, head_.key.columns}, value_{of_.value.data ? kKeys : 0, head_.value.columns};
  std::vector<T> sums_ = std::vector<T>(static_cast<std::size_t>(queries_.end - queries_.begin));
};

/// Heads that share a bias add to one matrix `sum`: f(head, queries, keys) for one after the other, and for parts of it
/// in parallel.
template <class F>
void for_each_part_of_bias(const Heads& heads, const Array& sum, F&& f) {
  const std::vector<std::vector<std::int64_t>> lists = heads.sharing(sum);
  const bool by_queries = sum.size(sum.rank() - 2) > 1;
  const Range all_queries{0, heads.queries()}, all_keys{0, heads.keys()};
  heads.for_each_of(static_cast<std::int64_t>(lists.size()), by_queries ? heads.queries() : heads.keys(),
                    by_queries ? kQueries : kKeys, [&](std::int64_t list, Range part) {
                      for (const std::int64_t h : lists[static_cast<std::size_t>(list)])
                        f(h, by_queries ? part : all_queries, by_queries ? all_keys : part);
                    });
}

}  // namespace

AttentionGradients attention_backward(const AttentionInputs& inputs, const AttentionOutput& result,
                                      const Array& gradient, AttentionWanted wanted) {
  const Heads heads(inputs);
  const Array g = with_adjacent_columns(gradient), output = with_adjacent_columns(result.output);
  AttentionGradients gradients;
  if (wanted.query) gradients.query = in_the_order_of(inputs.query, inputs.query.shape());
  if (wanted.key) gradients.key = in_the_order_of(inputs.key, inputs.key.shape());
  if (wanted.value) gradients.value = in_the_order_of(inputs.value, inputs.value.shape());
  if (wanted.bias) {
    gradients.bias = Array(inputs.bias.shape(), g.dtype());
    fill(gradients.bias, 0.0);
    // Softmax doesn't change with a number that is added to all keys of a query: such a bias has no gradient.
    wanted.bias = inputs.bias.size(inputs.bias.rank() - 1) > 1;
  }
  dispatch_floating("attention", g.dtype(), [&]<class T>(Type<T>) {
    const auto run = [&](std::int64_t h, Range some_queries, Range some_keys, AttentionWanted of_these) {
      HeadGradients<T> of{heads.matrix<const T>(g, h),
                          heads.matrix<const T>(output, h),
                          result.stats.data<T>() + 2 * h * heads.queries(),
                          {},
                          {},
                          {},
                          {}};
      if (of_these.query) of.query = heads.matrix<T>(gradients.query, h);
      if (of_these.key) of.key = heads.matrix<T>(gradients.key, h);
      if (of_these.value) of.value = heads.matrix<T>(gradients.value, h);
      if (of_these.bias) of.bias = heads.pairs<T>(gradients.bias.expanded(heads.scores()), h);
      Backward<T>(heads.head<T>(h), of, some_queries).run(some_keys);
    };
    const Range all_queries{0, heads.queries()}, all_keys{0, heads.keys()};
    if (wanted.bias)
      for_each_part_of_bias(heads, gradients.bias, [&](std::int64_t h, Range some_queries, Range some_keys) {
        run(h, some_queries, some_keys, {false, false, false, true});
      });
    if (!wanted.query && !wanted.key && !wanted.value) return;
    if (!heads.few())
      return heads.for_each(1, 1, [&](std::int64_t h, Range) {
        run(h, all_queries, all_keys, {wanted.query, wanted.key, wanted.value});
      });
    // Parts of a head would add to the same gradients: one pass over parts of the queries, one over parts of the keys.
    if (wanted.query)
      heads.for_each(heads.queries(), kQueries, [&](std::int64_t h, Range part) {
        run(h, part, all_keys, {true, false, false});
      });
    if (wanted.key || wanted.value)
      heads.for_each(heads.keys(), kKeys, [&](std::int64_t h, Range part) {
        run(h, all_queries, part, {false, wanted.key, wanted.value});
      });
  });
  return gradients;
}

}  // namespace tapegrad::core::kernels
