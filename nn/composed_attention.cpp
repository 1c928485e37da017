#include <tapegrad/nn/attention_paths.hpp>

#include <limits>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/softmax.hpp>

namespace tapegrad::nn {
namespace {

/// softmax(scale * scores) among what is allowed, 0 elsewhere; `mask` is undefined, or boolean and of the scores'
/// shape.
Tensor masked_softmax(const Tensor& scores, const Array& mask, const kernels::Band& band, double scale) {
  const auto value = [&] { return kernels::masked_softmax(scores.array(), mask, band, scale); };
  return record("masked_softmax", value, {scores}, [scale](const Tensor& g, const Tensor& weights) {
    if (!is_recording({g, weights}))
      return Tensors{Tensor(kernels::masked_softmax_backward(g.array(), weights.array(), scale))};
    return Tensors{scale * softmax_slopes(weights, g)};
  });
}

/// What mask, key lengths and infinite bias allow, as booleans of the scores' shape; undefined if there are none.
Array allowed_pairs(const AttentionCall& call) {
  Tensor allowed = call.mask;
  const auto restrict = [&](const Tensor& more) { allowed = allowed.defined() ? logical_and(allowed, more) : more; };
  if (call.key_lengths.defined())
    restrict(lt(arange(call.scores.back()), unsqueeze(unsqueeze(call.key_lengths, -1), -1)));
  if (call.bias.defined()) restrict(ne(call.bias.detach(), -std::numeric_limits<double>::infinity()));
  return allowed.defined() ? allowed.array().converted(boolean).expanded(call.scores) : Array();
}

/// W V on values that are not all finite.
Tensor sum_of_attended(const Tensor& weights, const Tensor& value) {
  const Tensor finite = isfinite(value), attended = ne(weights, 0).to(value.dtype());
  const Tensor spoilt = gt(matmul(attended, logical_not(finite).to(value.dtype())), 0);
  return where(spoilt, std::numeric_limits<double>::quiet_NaN(), matmul(weights, where(finite, value, 0.0)));
}

}  // namespace

Tensor softmax_slopes(const Tensor& weights, const Tensor& g) {
  const Tensor hidden = eq(weights, 0), product = where(hidden, 0.0, g) * weights;
  return where(hidden, 0.0, product - weights * product.sum(-1, true));
}

Tensor row_products(const Tensor& a, const Tensor& b, bool guarded) {
  if (!guarded) return matmul(a, b.transpose(-2, -1));
  const auto value = [&] {
    const NoGradGuard no_grad;
    return matmul(a, b.transpose(-2, -1));
  };
  return record("row_products", value, {a, b}, [a, b](const Tensor& g) {
    return Tensors{needs_gradient(0) ? sum_to(weighted_sum(g, b, true), a.shape()) : Tensor(),
                   needs_gradient(1) ? sum_to(weighted_sum(g.transpose(-2, -1), a, true), b.shape()) : Tensor()};
  });
}

Tensor weighted_sum(const Tensor& weights, const Tensor& value, bool guarded) {
  if (!guarded) return matmul(weights, value);
  const auto sum = [&] {
    const NoGradGuard no_grad;
    return kernels::all_finite(value.array()) ? matmul(weights, value) : sum_of_attended(weights, value);
  };
  return record("weighted_sum", sum, {weights, value}, [weights, value](const Tensor& g) {
    return Tensors{
        needs_gradient(0) ? sum_to(row_products(g, value, true), weights.shape()) : Tensor(),
        needs_gradient(1) ? sum_to(weighted_sum(weights.transpose(-2, -1), g, true), value.shape()) : Tensor()};
  });
}

Tensor composed_weights(const AttentionCall& call) {
  const Tensor scores = row_products(call.query, call.key, call.guarded());
  const Array allowed = allowed_pairs(call);
  return call.bias.defined() ? masked_softmax(scores * call.scale + call.bias, allowed, call.band, 1.0)
                             : masked_softmax(scores, allowed, call.band, call.scale);
}

AttentionResult composed_attention(const AttentionCall& call) {
  const Tensor weights = composed_weights(call);  // [..., L, S]
  const Tensor kept = call.dropout > 0 ? dropout(weights, call.dropout) : weights;
  return {weighted_sum(kept, call.value, call.guarded()), weights};
}

}  // namespace tapegrad::nn
