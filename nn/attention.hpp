// Scaled dot-product attention (Vaswani et al., 2017): softmax(scale Q K^T + bias) V, among the allowed pairs.
#pragma once
#include <memory>
#include <optional>
#include <tuple>

#include <tapegrad/autograd/operand.hpp>
#include <tapegrad/nn/masks.hpp>

namespace tapegrad::nn {

/// A query sees what all of `mask`, `is_causal`, `window` and `key_lengths` allow. The last three cost no memory, and
/// with need_weights = false no time either where they hide.
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
  /// Keys from so many to the left to so many to the right of i + S - L; `.window = 3` is three to either side.
  std::optional<Window> window = {};
  /// By default 1 / sqrt(width of a query).
  std::optional<double> scale = {};
  /// Probability of dropping a weight on its way to the output, in any mode: pass 0 in evaluation.
  double dropout_p = 0.0;
  /// Without it `weights` stays undefined, which is faster, and memory grows with L + S instead of L x S.
  bool need_weights = true;
  /// int64, broadcasting to the leading dimensions of the scores ([N, 1] beside N items of several heads): item n sees
  /// keys 0 ... length - 1 alone.
  Tensor key_lengths = {};
  /// Grouped heads (Ainslie et al., 2023): query [..., H, L, E], key and value [..., H', S, ...], where H is a multiple
  /// of H'; query head h reads key head h / (H / H'). Nothing is repeated in memory.
  bool enable_gqa = false;
};

struct AttentionCall;

struct AttentionResult {
  Tensor output;
  /// Before dropout: each row sums to one.
  Tensor weights;
  /// Of a result without weights: what they are computed from.
  std::shared_ptr<const AttentionCall> call = {};

  /// [rows, S]: weights of queries first_row, first_row + 1, ... of one head, before dropout. If `weights` is undefined
  /// they are computed from query and key as these are now, in memory that grows with rows x S; differentiable. Of
  /// leading dimensions [..., H] `head` indexes the last one, and `batch` the others, in row-major order; a single one
  /// is the batch, and `head` is 0. IndexError for what is not there.
  Tensor weights_of(std::int64_t batch, std::int64_t head, std::int64_t first_row, std::int64_t rows) const;

  // For `auto [output, weights] = ...`.
  template <std::size_t I>
  Tensor&& get() && {
    return std::move(I == 0 ? output : weights);
  }
  template <std::size_t I>
  Tensor& get() & {
    return I == 0 ? output : weights;
  }
  template <std::size_t I>
  const Tensor& get() const& {
    return I == 0 ? output : weights;
  }
};

/// query [..., L, E], key [..., S, E], value [..., S, V] -> output [..., L, V] and weights [..., L, S], where
/// weights[i, j] is how much query i attends to key j; leading dimensions broadcast. A blocked weight is exactly 0,
/// whatever stands behind the mask; a query that may attend to nothing gets zeros and passes zero gradients.
AttentionResult scaled_dot_product_attention(const Operand& query, const Tensor& key, const Tensor& value,
                                             const AttentionOptions& options = {});
AttentionResult scaled_dot_product_attention(const Operand& query, const Tensor& key, const Tensor& value,
                                             const Mask& mask);

}  // namespace tapegrad::nn

template <>
struct std::tuple_size<tapegrad::nn::AttentionResult> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, tapegrad::nn::AttentionResult> {
  using type = tapegrad::Tensor;
};
