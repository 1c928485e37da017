#include <tapegrad/nn/composed_attention.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/softmax.hpp>

namespace tapegrad::nn {
namespace {

/// softmax(scale * scores) among what is allowed, 0 elsewhere; `mask` is undefined, or boolean and of the scores'
/// shape. d/dscores = scale w (g - sum(g w)).
Tensor masked_softmax(const Tensor& scores, const Array& mask, bool causal, double scale) {
  const auto value = [&] { return kernels::masked_softmax(scores.array(), mask, causal, scale); };
  return record("masked_softmax", value, {scores}, [scale](const Tensor& g, const Tensor& weights) {
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

}  // namespace

Tensor weighted_sum(const Tensor& weights, const Tensor& value, bool guarded) {
  if (!guarded || all_finite(value)) return matmul(weights, value);
  const Tensor attended = ne(weights, 0).to(value.dtype()), spoilt = logical_not(isfinite(value)).to(value.dtype());
  return poisoned(matmul(weights, finite_part(value)), gt(matmul(attended, spoilt), 0));
}

bool is_guarded(const AttentionOptions& options) { return options.mask.defined() || options.is_causal; }

double attention_scale(const Tensor& query, const AttentionOptions& options) {
  return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, query.size(-1)))));
}

Array boolean_mask(const AttentionOptions& options, const Shape& shape) {
  const Tensor mask = options.mask.parts(shape).allowed;
  return mask.defined() ? mask.array().converted(boolean).expanded(shape) : Array();
}

Tensor composed_weights(const Tensor& query, const Tensor& key, const AttentionOptions& options, const Shape& shape) {
  double scale = attention_scale(query, options);
  Tensor scores = products(query, key, is_guarded(options));
  if (options.bias.defined()) {
    scores = scores * scale + options.bias;
    scale = 1.0;
  }
  return masked_softmax(scores, boolean_mask(options, shape), options.is_causal, scale);
}

AttentionResult composed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionOptions& options, const Shape& shape) {
  const Tensor weights = composed_weights(query, key, options, shape);  // [..., L, S]
  const Tensor kept = options.dropout_p > 0 ? dropout(weights, options.dropout_p) : weights;
  return {weighted_sum(kept, value, is_guarded(options)), options.need_weights ? weights : Tensor()};
}

}  // namespace tapegrad::nn
