#include <tapegrad/nn/attention.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/softmax.hpp>

namespace tapegrad::nn {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

Shape leading(const Tensor& x) { return x.shape().sub(0, x.rank() - 2); }

void check_operand(const char* what, const Tensor& x, const Tensor& query) {
  if (x.rank() < 2)
    throw ShapeError(
        fmt::format("{}: {} must have at least two dimensions, [..., length, width]; got {}", kName, what, x.shape()));
  if (!is_floating(x.dtype()) || x.dtype() != query.dtype())
    throw DtypeError(fmt::format(
        "{}: query, key and value must have one floating dtype; got {} {} beside query {}; convert with .to()", kName,
        what, x.dtype(), query.dtype()));
}

Shape broadcast_leading(const char* what, const Tensor& x, const Shape& shape) {
  try {
    return broadcast_shapes(kName, leading(x), shape);
  } catch (const ShapeError&) {
    throw ShapeError(fmt::format("{}: leading dimensions must broadcast; got {} {} beside leading dimensions {}", kName,
                                 what, x.shape(), shape));
  }
}

/// Checks everything and returns the shape of the scores, [..., L, S].
Shape check(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  check_operand("query", query, query);
  check_operand("key", key, query);
  check_operand("value", value, query);
  if (key.size(-1) != query.size(-1))
    throw ShapeError(
        fmt::format("{}: key must be as wide as query, since scores are their products; got key {} and query {}; "
                    "project one of them",
                    kName, key.shape(), query.shape()));
  if (value.size(-2) != key.size(-2))
    throw ShapeError(fmt::format("{}: value must be as long as key, one value for each key; got value {} and key {}",
                                 kName, value.shape(), key.shape()));
  Shape scores = broadcast_leading("key", key, leading(query));
  broadcast_leading("value", value, scores);
  scores.push_back(query.size(-2));
  scores.push_back(key.size(-2));
  for (const auto& [what, x] : {std::pair{"mask", options.mask}, {"bias", options.bias}})
    if (x.defined() && !is_broadcastable_to(x.shape(), scores))
      throw ShapeError(fmt::format("{}: {} must broadcast to the scores, [..., queries, keys] = {}; got {}", kName,
                                   what, scores, x.shape()));
  if (options.mask.defined() && options.mask.requires_grad())
    throw GradError(
        fmt::format("{}: a mask has no gradient; got one that requires it; pass scores to add as bias", kName));
  if (options.bias.defined() && options.bias.dtype() != query.dtype())
    throw DtypeError(fmt::format(
        "{}: bias is added to the scores and must be {} as query is; got {}; what allows or blocks is passed as mask",
        kName, query.dtype(), options.bias.dtype()));
  if (options.scale && !std::isfinite(*options.scale))
    throw ValueError(fmt::format("{}: scale must be finite; got {}", kName, *options.scale));
  if (!(options.dropout_p >= 0 && options.dropout_p <= 1))
    throw ValueError(fmt::format("{}: dropout_p must be in [0, 1]; got {}", kName, options.dropout_p));
  return scores;
}

/// softmax(scale * scores) among what is allowed, 0 elsewhere; `mask` is undefined, or boolean and of the scores'
/// shape. d/dscores = scale w (g - sum(g w)).
Tensor masked_softmax(const Tensor& scores, const Array& mask, bool causal, double scale) {
  return record("masked_softmax", kernels::masked_softmax(scores.array(), mask, causal, scale), {scores},
                [scale](const Tensor& g, const Tensor& weights) {
                  if (!is_recording({g, weights}))
                    return Tensors{Tensor(kernels::masked_softmax_backward(g.array(), weights.array(), scale))};
                  const Tensor product = where(eq(weights, 0), 0.0, g) * weights;
                  return Tensors{scale * (product - weights * product.sum(-1, true))};
                });
}

bool all_finite(const Tensor& x) { return kernels::all_finite(x.array()); }
Tensor finite_part(const Tensor& x) { return where(isfinite(x), x, 0.0); }

Tensor poisoned(const Tensor& x, const Tensor& where_bad) {
  return where(where_bad, std::numeric_limits<double>::quiet_NaN(), x);
}

/// Q K^T. `guarded`: a query or key that is not finite spoils its own row or column alone, in the backward sweep too,
/// where zero times NaN would otherwise spread from what is masked.
Tensor products(const Tensor& query, const Tensor& key, bool guarded) {
  if (!guarded || (all_finite(query) && all_finite(key))) return matmul(query, key.transpose(-2, -1));
  const Tensor bad = logical_or(logical_not(all(isfinite(query), -1, true)),
                                logical_not(all(isfinite(key), -1, true)).transpose(-2, -1));
  return poisoned(matmul(finite_part(query), finite_part(key).transpose(-2, -1)), bad);
}

/// W V. `guarded`: a value of weight zero counts for nothing even if it is not finite.
Tensor weighted_sum(const Tensor& weights, const Tensor& value, bool guarded) {
  if (!guarded || all_finite(value)) return matmul(weights, value);
  const Tensor attended = ne(weights, 0).to(value.dtype()), spoilt = logical_not(isfinite(value)).to(value.dtype());
  return poisoned(matmul(weights, finite_part(value)), gt(matmul(attended, spoilt), 0));
}

/// The weights for arguments that have been checked.
Tensor attention_weights(const Tensor& query, const Tensor& key, const AttentionOptions& options, const Shape& shape,
                         bool guarded) {
  double scale =
      options.scale.value_or(1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, query.size(-1)))));
  Array mask;
  if (options.mask.defined()) mask = options.mask.array().converted(boolean).expanded(shape);
  Tensor scores = products(query, key, guarded);
  if (options.bias.defined()) {
    scores = scores * scale + options.bias;
    scale = 1.0;
  }
  return masked_softmax(scores, mask, options.is_causal, scale);
}

}  // namespace

AttentionResult scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const AttentionOptions& options) {
  const Shape shape = check(query, key, value, options);
  const bool guarded = options.mask.defined() || options.is_causal;
  const Tensor weights = attention_weights(query, key, options, shape, guarded);  // [..., L, S]
  const Tensor kept = options.dropout_p > 0 ? dropout(weights, options.dropout_p) : weights;
  return {weighted_sum(kept, value, guarded), options.need_weights ? weights : Tensor()};
}

AttentionResult scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const Tensor& mask) {
  return scaled_dot_product_attention(query, key, value, {.mask = mask});
}

}  // namespace tapegrad::nn
