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

/// What the sweep needs: the operands, and the numbers that dropout drew.
struct Call {
  Tensor query, key, value;
  AttentionOptions options;
  Shape scores, leading;
  RandomState random;

  kernels::AttentionInputs inputs() const {
    Array mask = boolean_mask(options, scores);
    if (mask.defined()) mask = mask.expanded(with(leading, query.size(-2), key.size(-2)));
    return {broadcast(query, leading), broadcast(key, leading),         broadcast(value, leading), std::move(mask),
            options.is_causal,         attention_scale(query, options), options.dropout_p,         random};
  }
};

/// The gradients as differentiable operations: W = softmax(S), dV = W^T g, dS = W (g V^T - sum(W g V^T)), dQ = scale dS
/// K, dK = scale dS^T Q.
Tensors composed_gradients(const Tensor& g, const Call& call) {
  const bool guarded = is_guarded(call.options);
  const Tensor weights = composed_weights(call.query, call.key, call.options, call.scores);
  Tensor to_weights = matmul(g, call.value.transpose(-2, -1)), kept = weights;
  if (call.options.dropout_p > 0) {
    const Array ones = ones_like(weights.detach()).array();
    const Tensor factors(kernels::dropout(ones, call.options.dropout_p, call.random));
    to_weights = to_weights * factors;
    kept = weights * factors;
  }
  const Tensor product = where(eq(weights, 0), 0.0, to_weights) * weights;
  const Tensor slopes = attention_scale(call.query, call.options) * (product - weights * product.sum(-1, true));
  const auto sum_for = [&](const Tensor& factors, const Tensor& x, const Tensor& input) {
    return sum_to(weighted_sum(factors, x, guarded), input.shape());
  };
  return {needs_gradient(0) ? sum_for(slopes, call.key, call.query) : Tensor(),
          needs_gradient(1) ? sum_for(slopes.transpose(-2, -1), call.query, call.key) : Tensor(),
          needs_gradient(2) ? sum_for(kept.transpose(-2, -1), g, call.value) : Tensor()};
}

Tensor fitted(Array gradient, const Tensor& input) {
  return gradient.defined() ? sum_to(Tensor(std::move(gradient)), input.shape()) : Tensor();
}

}  // namespace

Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
                       const Shape& shape) {
  const RandomState random =
      options.dropout_p > 0 ? core::take_random(kernels::dropout_counters(shape.numel())) : RandomState{};
  const Call call{query, key, value, options, shape, leading_dimensions(value, shape), random};
  const autograd::Span span("attention");
  const kernels::AttentionOutput result = kernels::attention(call.inputs());
  const bool masked = options.mask.defined();
  const Tensor mask = options.mask.parts(shape).allowed;
  const autograd::TensorRef operands[4] = {query, key, value, mask};
  auto backward = [call, masked, stats = result.stats](const Tensor& g, const Tensor& output) {
    Tensors gradients;
    if (is_recording({g, call.query, call.key, call.value})) {
      gradients = composed_gradients(g, call);
    } else {
      const kernels::AttentionGradients arrays = kernels::attention_backward(
          call.inputs(), {output.array(), stats}, g.array(), {needs_gradient(0), needs_gradient(1), needs_gradient(2)});
      gradients = {fitted(arrays.query, call.query), fitted(arrays.key, call.key), fitted(arrays.value, call.value)};
    }
    if (masked) gradients.emplace_back();
    return gradients;
  };
  return record("attention", Tensor(result.output), autograd::Inputs(operands, masked ? 4 : 3), std::move(backward));
}

}  // namespace tapegrad::nn
