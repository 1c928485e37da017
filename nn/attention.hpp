// Scaled dot-product attention (Vaswani et al., 2017): softmax(scale Q K^T + bias) V, among the allowed pairs.
#pragma once
#include <optional>

#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/nn/masks.hpp>

namespace tapegrad::nn {

struct AttentionOptions {
  /// Nonzero allows, zero blocks, in any dtype; broadcasts to [..., queries, keys]. It is never added to the scores:
  /// with zero scores the mask {{1, 0}, {1, 1}} gives the weights {{1, 0}, {.5, .5}}; as a bias it would give {{.73,
  /// .27}, {.5, .5}}.
  Mask mask = {};
  /// Added to the scaled scores, with their dtype; broadcasts like the mask, and may want a gradient. -inf blocks too.
  Tensor bias = {};
  /// Query i of L sees the keys up to i + S - L: aligned bottom right, so that the last query sees every key (PyTorch's
  /// function aligns top left). With a mask: what both allow.
  bool is_causal = false;
  /// By default 1 / sqrt(width of a query).
  std::optional<double> scale = {};
  /// Probability of dropping a weight on its way to the output, in any mode: pass 0 in evaluation.
  double dropout_p = 0.0;
  /// Without it `weights` stays undefined, which is faster.
  bool need_weights = true;
};

struct AttentionResult {
  Tensor output;
  /// Before dropout: each row sums to one.
  Tensor weights;
};

/// query [..., L, E], key [..., S, E], value [..., S, V] -> output [..., L, V] and weights [..., L, S], where
/// weights[i, j] is how much query i attends to key j; leading dimensions broadcast. A blocked weight is exactly 0,
/// whatever stands behind the mask; a query that may attend to nothing gets zeros and passes zero gradients.
AttentionResult scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const AttentionOptions& options = {});
AttentionResult scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const Mask& mask);

}  // namespace tapegrad::nn
