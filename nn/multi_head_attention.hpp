// Attention as layers: several heads between learned projections, and self-attention without parameters.
#pragma once
#include <optional>

#include <tapegrad/nn/attention.hpp>
#include <tapegrad/nn/kv_cache.hpp>
#include <tapegrad/nn/linear.hpp>
#include <tapegrad/nn/positions.hpp>
#include <tapegrad/nn/rms_norm.hpp>

namespace tapegrad::nn {

struct MultiHeadAttentionOptions {
  /// Probability of dropping a weight, in training.
  double dropout = 0.0;
  bool bias = true;
  /// Widths of key and value inputs; embed_dim if not given.
  std::optional<std::int64_t> kdim = {};
  std::optional<std::int64_t> vdim = {};
  /// Heads of keys and values, a divisor of num_heads, which is the default: consecutive query heads share one
  /// (grouped-query attention, Ainslie et al., 2023; 1 is multi-query attention, Shazeer, 2019).
  std::optional<std::int64_t> num_kv_heads = {};
  /// Queries and keys are turned by their positions (RotaryEmbedding), aligned bottom right: the last query stands at
  /// the last key. ValueError unless the width of a head is even.
  bool rotary = false;
  double rotary_base = 10000.0;
  /// Queries and keys are normalised head by head (Henry et al., 2020), by an RMSNorm with a gain for each feature of a
  /// head, q_norm.weight and k_norm.weight, before any rotation: as in Qwen3 and Gemma 3.
  bool qk_norm = false;
  /// Keys no further away, in every call (AttentionOptions::window).
  std::optional<Window> window = {};
};

/// What one call may attend to; nonzero allows in every mask (PyTorch's module has it the other way round), and several
/// restrictions together allow what all of them allow.
struct AttendOptions {
  /// [L, S], [N, L, S], or with a head dimension [N or 1, H or 1, L, S].
  Mask mask = {};
  /// [N, S]: nonzero where the key is a real token, zero where it is padding.
  Tensor key_padding_mask = {};
  /// int64 [N]: item n has so many real keys, in front. Nothing of [N, S] is made.
  Tensor key_lengths = {};
  /// Added to the scaled scores; broadcasts to [N, H, L, S].
  Tensor bias = {};
  /// As AttentionOptions::is_causal: aligned bottom right.
  bool is_causal = false;
  /// attention_weights alone: the mean over the heads, [N, L, S].
  bool average_weights = false;
};

/// q_proj, k_proj and v_proj, split into heads; scaled dot-product attention in each; heads merged; out_proj. Batch
/// first. Splitting and merging are views. The projections start as PyTorch's packed matrix does: Xavier uniform over
/// [3 embed_dim, embed_dim], biases zero.
class MultiHeadAttention : public Module {
 public:
  /// ValueError unless embed_dim is divisible by num_heads, and num_heads by num_kv_heads.
  MultiHeadAttention(std::int64_t embed_dim, std::int64_t num_heads, const MultiHeadAttentionOptions& options = {});

  /// query [N, L, embed_dim], key [N, S, kdim], value [N, S, vdim] -> [N, L, embed_dim].
  Tensor forward(const Operand& query, const Tensor& key, const Tensor& value, const AttendOptions& options = {}) const;
  /// Self-attention: query, key and value are x.
  Tensor forward(const Operand& x, const AttendOptions& options = {}) const { return forward(x, x, x, options); }
  /// Causal self-attention of x [N, L, embed_dim], the tokens behind those in `cache`, to both; they join it. The first
  /// call may bring many tokens (the prompt), later ones often one. The output is what forward(all tokens, {.is_causal
  /// = true}) gives for the last L. Off the tape: GradError, before anything changes, if gradients would be recorded.
  Tensor forward(const Operand& x, KVCache& cache) const;

  Tensor operator()(const Operand& x, const AttendOptions& options = {}) const { return forward(x, options); }
  Tensor operator()(const Operand& x, KVCache& cache) const { return forward(x, cache); }
  Tensor operator()(const Operand& x, const Mask& mask) const { return forward(x, {.mask = mask}); }
  Tensor operator()(const Operand& query, const Tensor& key, const Tensor& value,
                    const AttendOptions& options = {}) const {
    return forward(query, key, value, options);
  }
  Tensor operator()(const Operand& query, const Tensor& key, const Tensor& value, const Mask& mask) const {
    return forward(query, key, value, {.mask = mask});
  }

  /// The weights of every head, [N, H, L, S], or their mean. In training they are those before dropout, as in
  /// evaluation: rows sum to one.
  Tensor attention_weights(const Operand& query, const Tensor& key, const AttendOptions& options) const;
  Tensor attention_weights(const Operand& x, const AttendOptions& options = {}) const {
    return attention_weights(x, x, options);
  }
  Tensor attention_weights(const Operand& x, const Mask& mask) const { return attention_weights(x, {.mask = mask}); }

  std::int64_t embed_dim() const { return out_proj_.out_features(); }
  std::int64_t num_heads() const { return num_heads_; }
  std::int64_t num_kv_heads() const { return k_proj_.out_features() / head_dim(); }
  std::int64_t head_dim() const { return embed_dim() / num_heads_; }
  const Linear& q_proj() const { return q_proj_; }
  const Linear& k_proj() const { return k_proj_; }
  const Linear& v_proj() const { return v_proj_; }
  const Linear& out_proj() const { return out_proj_; }

 private:
  Tensor heads_of(const char* what, const Tensor& x, const Linear& projection) const;
  struct Operands {
    Tensor query, key;
  };
  Operands operands(const Tensor& query, const Tensor& key) const;
  Tensor placed(Tensor heads, const std::optional<RMSNorm>& norm, std::int64_t position) const;
  AttentionOptions in_heads(const AttendOptions& options) const;
  Tensor merged(const Tensor& heads) const;

  std::int64_t num_heads_;
  double dropout_;
  std::optional<Window> window_;
  std::optional<RotaryEmbedding> rotary_;
  Linear q_proj_;
  Linear k_proj_;
  Linear v_proj_;
  Linear out_proj_;
  std::optional<RMSNorm> q_norm_, k_norm_;
};

/// Attention with query = key = value = x, without parameters.
class SelfAttention : public Module {
 public:
  explicit SelfAttention(std::int64_t d_model);

  /// x [..., length, d_model] -> output of the same shape, weights [..., length, length].
  AttentionResult forward(const Operand& x, const AttentionOptions& options = {}) const;
  AttentionResult operator()(const Operand& x, const AttentionOptions& options = {}) const {
    return forward(x, options);
  }
  AttentionResult operator()(const Operand& x, const Mask& mask) const { return forward(x, {.mask = mask}); }
  std::int64_t d_model() const { return d_model_; }

 private:
  std::int64_t d_model_;
};

}  // namespace tapegrad::nn
