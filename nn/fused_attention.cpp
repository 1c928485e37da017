#include <tapegrad/nn/attention_paths.hpp>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/attention.hpp>
#include <tapegrad/core/kernels/dropout.hpp>

namespace tapegrad::nn {
namespace {

Shape with(Shape leading, std::int64_t rows, std::int64_t columns) {
  leading.push_back(rows);
  leading.push_back(columns);
  return leading;
}

/// The kernel's view of a call: every operand has all leading dimensions, those of the values included.
kernels::AttentionInputs inputs_of(const AttentionCall& call, RandomState random) {
  const Shape items = broadcast_shapes("attention", leading(call.value), leading(call.scores));
  const auto operand = [&](const Tensor& x) { return x.array().expanded(with(items, x.size(-2), x.size(-1))); };
  const Shape scores = with(items, call.query.size(-2), call.key.size(-2));
  Array mask = call.mask.defined() ? call.mask.array().converted(boolean).expanded(scores) : Array();
  return {operand(call.query), operand(call.key),
          operand(call.value), call.bias.defined() ? call.bias.array() : Array(),
          std::move(mask),     call.key_lengths.defined() ? call.key_lengths.array().expanded(items) : Array(),
          call.band,           call.scale,
          call.dropout,        random};
}

/// The gradients as differentiable operations: W = softmax(S), dV = W^T g, dS = W (g V^T - sum(W g V^T)), dQ = scale dS
/// K, dK = scale dS^T Q; dS is the bias's.
Tensors composed_gradients(const Tensor& g, const AttentionCall& call, RandomState random) {
  const bool guarded = call.guarded();
  const Tensor weights = composed_weights(call);
  Tensor to_weights = row_products(g, call.value, guarded), kept = weights;
  if (call.dropout > 0) {
    const Tensor factors(kernels::dropout(ones_like(weights.detach()).array(), call.dropout, random));
    to_weights = to_weights * factors;
    kept = weights * factors;
  }
  const Tensor slopes = softmax_slopes(weights, to_weights);
  const auto sum_for = [&](const Tensor& factors, const Tensor& x, const Tensor& input) {
    return sum_to(weighted_sum(factors, x, guarded), input.shape());
  };
  return {needs_gradient(0) ? call.scale * sum_for(slopes, call.key, call.query) : Tensor(),
          needs_gradient(1) ? call.scale * sum_for(slopes.transpose(-2, -1), call.query, call.key) : Tensor(),
          needs_gradient(2) ? sum_for(kept.transpose(-2, -1), g, call.value) : Tensor(),
          call.bias.defined() && needs_gradient(3) ? sum_to(slopes, call.bias.shape()) : Tensor()};
}

Tensor fitted(Array gradient, const Tensor& input) {
  return gradient.defined() ? sum_to(Tensor(std::move(gradient)), input.shape()) : Tensor();
}

}  // namespace

Tensor fused_attention(const std::shared_ptr<const AttentionCall>& given) {
  const AttentionCall& call = *given;
  const RandomState random =
      call.dropout > 0 ? core::take_random(kernels::dropout_counters(call.scores.numel())) : RandomState{};
  const autograd::Span span("attention");
  const kernels::AttentionOutput result = kernels::attention(inputs_of(call, random));
  Tensors operands = {call.query, call.key, call.value};
  for (const Tensor& option : {call.bias, call.mask, call.key_lengths})
    if (option.defined()) operands.push_back(option);
  auto backward = [given, random, count = operands.size(), stats = result.stats](const Tensor& g,
                                                                                 const Tensor& output) {
    const AttentionCall& call = *given;
    Tensors gradients;
    if (is_recording({g, call.query, call.key, call.value, call.bias.defined() ? call.bias : g})) {
      gradients = composed_gradients(g, call, random);
    } else {
      const bool for_bias = call.bias.defined() && needs_gradient(3);
      kernels::AttentionGradients arrays =
          kernels::attention_backward(inputs_of(call, random), {output.array(), stats}, g.array(),
                                      {needs_gradient(0), needs_gradient(1), needs_gradient(2), for_bias});
      gradients = {fitted(arrays.query, call.query), fitted(arrays.key, call.key), fitted(arrays.value, call.value),
                   for_bias ? fitted(arrays.bias, call.bias) : Tensor()};
    }
    gradients.resize(count);
    return gradients;
  };
  return record("attention", Tensor(result.output), operands, std::move(backward));
}

}  // namespace tapegrad::nn
