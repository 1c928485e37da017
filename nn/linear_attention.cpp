#include <tapegrad/nn/linear_attention.hpp>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/nn/attention_paths.hpp>

namespace tapegrad::nn {
namespace {

constexpr const char* kName = "linear_attention";

void check(const Tensor& query, const Tensor& key, const Tensor& value, bool is_causal) {
  check_operands(kName, query, key, value);
  require<ShapeError>(!is_causal || query.size(-2) == key.size(-2),
                      "{}: a causal call takes as many queries as keys; got query {} and key {}", kName, query.shape(),
                      key.shape());
  broadcast_shapes(kName, broadcast_shapes(kName, leading(query), leading(key)), leading(value));
}

/// elu(x) + 1, without losing e^x to the 1 where x is far below 0.
Tensor positive(const Tensor& x) { return exp(clamp_max(x, 0)) + relu(x); }

Tensor features(const char* what, const Tensor& x, const LinearAttentionOptions& options) {
  if (!options.feature_map) return positive(x);
  const Tensor mapped = options.feature_map(x);
  if (!mapped.defined() || mapped.rank() != x.rank() || mapped.dtype() != x.dtype() ||
      mapped.shape().sub(0, x.rank() - 1) != x.shape().sub(0, x.rank() - 1))
    throw ShapeError(
        fmt::format("{}: feature_map may change the last dimension alone, and not the dtype; got {} for {} {}", kName,
                    mapped.defined() ? mapped.shape().to_string() : "nothing", what, x.shape()));
  return mapped;
}

/// [..., L, width] -> [..., chunks, size, width], with zeros behind the end.
Tensor in_chunks(const Tensor& x, std::int64_t size) {
  const std::int64_t chunks = (x.size(-2) + size - 1) / size;
  Shape shape = x.shape().sub(0, x.rank() - 2);
  for (const std::int64_t dimension : {chunks, size, x.size(-1)}) shape.push_back(dimension);
  return pad(x, {0, 0, 0, chunks * size - x.size(-2)}).reshape(shape);
}

/// sum_{j <= i} q_i.k_j v_j: within a chunk by the weights themselves, over the chunks before it by their sums of k_j
/// v_j^T. What comes later is never in a sum, so it can't spoil one.
Tensor causal_sums(const Tensor& query, const Tensor& key, const Tensor& value) {
  constexpr std::int64_t kChunk = 64;
  const std::int64_t length = query.size(-2), size = std::min(kChunk, length);
  const Tensor q = in_chunks(query, size), k = in_chunks(key, size), v = in_chunks(value, size);
  const Tensor keys = k.transpose(-2, -1);                                               // [..., chunks, F, size]
  const Tensor within = weighted_sum(tril(matmul(q, keys)), v, true);                    // [..., chunks, size, V]
  const Tensor earlier = narrow(matmul(keys, v), -3, 0, k.size(-3) - 1);                 // [..., chunks - 1, F, V]
  const Tensor sums = within + matmul(q, cumsum(pad(earlier, {0, 0, 0, 0, 1, 0}), -3));  // [..., chunks, size, V]
  return narrow(flatten(sums, -3, -2), -2, 0, length);
}

}  // namespace

Tensor linear_attention(const Operand& query, const Tensor& key, const Tensor& value,
                        const LinearAttentionOptions& options) {
  check(query, key, value, options.is_causal);
  const Tensor q = features("query", query, options), k = features("key", key, options);
  require<ShapeError>(q.size(-1) == k.size(-1), "{}: key must have as many features as query; got query {} and key {}",
                      kName, q.shape(), k.shape());
  Shape column = value.shape();
  column[value.rank() - 1] = 1;
  const Tensor v = cat({value, ones(column, value.dtype())}, -1);  // a column of ones, for the sums of the weights
  const Tensor sums =
      options.is_causal && query.size(-2) > 0 ? causal_sums(q, k, v) : matmul(q, matmul(k.transpose(-2, -1), v));
  const Tensor total = narrow(sums, -1, value.size(-1), 1), blank = eq(total, 0);
  return where(blank, 0.0, narrow(sums, -1, 0, value.size(-1)) / where(blank, 1.0, total));
}

}  // namespace tapegrad::nn
