#include <tapegrad/nn/fused_attention.hpp>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/attention.hpp>
#include <tapegrad/core/kernels/dropout.hpp>
#include <tapegrad/nn/composed_attention.hpp>

namespace tapegrad::nn {
namespace {

/// The leading dimensions that all operands have together; those of the scores come from query and key alone.
Shape leading_dimensions(const Tensor& value, const Shape& scores) {
  return broadcast_shapes("attention", value.shape().sub(0, value.rank() - 2), scores.sub(0, scores.rank() - 2));
}

Shape with(Shape leading, std::int64_t rows, std::int64_t columns) {
  leading.push_back(rows);
  leading.push_back(columns);
  return leading;
}

Array broadcast(const Tensor& x, const Shape& leading) {
  return x.array().expanded(with(leading, x.size(-2), x.size(-1)));
}

/// The gradients as differentiable operations: W = softmax(S), dV = W^T g, dS = W (g V^T - sum(W g V^T)), dQ = scale dS
/// K, dK = scale dS^T Q.
Tensors composed_gradients(const Tensor& g, const Tensor& query, const Tensor& key, const Tensor& value,
                           const AttentionOptions& options, const Shape& shape, const RandomState& random) {
  const Tensor weights = composed_weights(query, key, options, shape);
  Tensor to_weights = matmul(g, value.transpose(-2, -1)), kept = weights;
  if (options.dropout_p > 0) {
    const Tensor factors(kernels::dropout(ones_like(weights.detach()).array(), options.dropout_p, random));
    to_weights = to_weights * factors;
    kept = weights * factors;
  }
  const Tensor product = where(eq(weights, 0), 0.0, to_weights) * weights;
  const Tensor slopes = attention_scale(query, options) * (product - weights * product.sum(-1, true));
  return {sum_to(matmul(slopes, key), query.shape()), sum_to(matmul(slopes.transpose(-2, -1), query), key.shape()),
          sum_to(matmul(kept.transpose(-2, -1), g), value.shape())};
}

Tensor fitted(Array gradient, const Tensor& input) {
  return gradient.defined() ? sum_to(Tensor(std::move(gradient)), input.shape()) : Tensor();
}

}  // namespace

Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
                       const Shape& shape) {
  const Shape leading = leading_dimensions(value, shape);
  const RandomState random =
      options.dropout_p > 0 ? core::take_random(kernels::dropout_counters(shape.numel())) : RandomState{};
  const auto inputs = [=] {
    Array mask = boolean_mask(options, shape);
    if (mask.defined()) mask = mask.expanded(with(leading, query.size(-2), key.size(-2)));
    return kernels::AttentionInputs{
        broadcast(query, leading), broadcast(key, leading),         broadcast(value, leading), std::move(mask),
        options.is_causal,         attention_scale(query, options), options.dropout_p,         random};
  };
  const autograd::Span span("attention");
  const kernels::AttentionOutput result = kernels::attention(inputs());
  const bool masked = options.mask.defined();
  const autograd::TensorRef operands[4] = {query, key, value, options.mask};
  return record("attention", Tensor(result.output), autograd::Inputs(operands, masked ? 4 : 3),
                [=, log_sum_exp = result.log_sum_exp](const Tensor& g, const Tensor& output) {
                  Tensors gradients;
                  if (is_recording({g, query, key, value})) {
                    gradients = composed_gradients(g, query, key, value, options, shape, random);
                  } else {
                    const kernels::AttentionGradients arrays =
                        kernels::attention_backward(inputs(), {output.array(), log_sum_exp}, g.array(),
                                                    needs_gradient(0), needs_gradient(1) || needs_gradient(2));
                    gradients = {fitted(arrays.query, query), fitted(arrays.key, key), fitted(arrays.value, value)};
                  }
                  if (masked) gradients.emplace_back();
                  return gradients;
                });
}

}  // namespace tapegrad::nn
