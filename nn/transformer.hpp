// The block that transformers are stacked from, and the two steps that all their layers are made of.
#pragma once
#include <variant>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/nn/dropout.hpp>
#include <tapegrad/nn/layer_norm.hpp>
#include <tapegrad/nn/linear.hpp>
#include <tapegrad/nn/multi_head_attention.hpp>
#include <tapegrad/nn/swiglu.hpp>

namespace tapegrad::nn {

/// A LayerNorm or an RMSNorm: a handle to the same module, that is called without knowing which.
class Norm : public Module {
 public:
  Norm(LayerNorm norm) : Module(norm), norm_(std::move(norm)) {}
  Norm(RMSNorm norm) : Module(norm), norm_(std::move(norm)) {}
  Tensor operator()(const Operand& x) const {
    return std::visit([&](const auto& norm) { return norm(x); }, norm_);
  }
  const Tensor& weight() const {
    return std::visit([](const auto& norm) -> const Tensor& { return norm.weight(); }, norm_);
  }

 private:
  std::variant<LayerNorm, RMSNorm> norm_;
};

/// One step with its residual path: x + dropout(step(norm(x))), or norm(x + dropout(step(x))) if the norm comes last.
template <class AnyNorm, class Step>
Tensor residual(const Tensor& x, const AnyNorm& norm, bool norm_first, const Dropout& dropout, const Step& step) {
  return norm_first ? x + dropout(step(norm(x))) : norm(x + dropout(step(x)));
}

enum class Activation { relu, gelu, gelu_tanh };
/// outer(dropout(activation(inner(x)))): the step that each position takes by itself. A dropout that has nothing to do,
/// or is null, is not called.
Tensor feed_forward(const Operand& x, const Linear& inner, Activation activation, const Linear& outer,
                    const Dropout* dropout = nullptr);

enum class NormKind { layer, rms };
enum class FeedForward { gelu, relu, swiglu, gelu_tanh };

struct TransformerBlockOptions {
  /// In training: of attention weights, and of both residual branches.
  double dropout = 0.0;
  /// Width of the hidden layer, in widths of the block.
  double mlp_ratio = 4.0;
  /// Of the linear layers and the norms.
  bool bias = true;
  /// Of both norms, of either kind.
  double layer_norm_eps = 1e-5;
  NormKind norm = NormKind::layer;
  /// With swiglu, a SwiGLU "mlp" takes the place of linear1 and linear2; an mlp_ratio of 8/3 then has as many
  /// parameters as 4 has otherwise.
  FeedForward feed_forward = FeedForward::gelu;
  /// Of the attention: MultiHeadAttentionOptions.
  std::optional<std::int64_t> num_kv_heads = {};
  bool rotary = false;
  double rotary_base = 10000.0;
  bool qk_norm = false;
  std::optional<Window> window = {};
};

/// Pre-norm: x + attention(norm1(x)), then x + linear2(gelu(linear1(norm2(x)))), or what the options put there.
class TransformerBlock : public Module {
 public:
  TransformerBlock(std::int64_t embed_dim, std::int64_t num_heads, const TransformerBlockOptions& options = {});

  /// x [N, L, embed_dim] -> the same shape.
  Tensor forward(const Operand& x, const AttendOptions& options = {}) const;
  /// Causal, after the tokens in `cache`: MultiHeadAttention::forward(x, cache).
  Tensor forward(const Operand& x, KVCache& cache) const;
  Tensor operator()(const Operand& x, const AttendOptions& options = {}) const { return forward(x, options); }
  Tensor operator()(const Operand& x, KVCache& cache) const { return forward(x, cache); }
  Tensor operator()(const Operand& x, const Mask& mask) const { return forward(x, {.mask = mask}); }

  const Norm& norm1() const { return norm1_; }
  const MultiHeadAttention& attention() const { return attention_; }
  const Norm& norm2() const { return norm2_; }
  /// Into the hidden layer; the SwiGLU's up_proj if there is one.
  const Linear& linear1() const { return linear1_; }
  /// Out of the hidden layer, onto the residual path; the SwiGLU's down_proj if there is one.
  const Linear& linear2() const { return linear2_; }

 private:
  template <class Attend>
  Tensor run(const Tensor& x, const Attend& attend) const;

  Norm norm1_;
  MultiHeadAttention attention_;
  Norm norm2_;
  std::optional<SwiGLU> mlp_;
  Linear linear1_;
  Linear linear2_;
  Dropout dropout_;
  Activation activation_;
};

}  // namespace tapegrad::nn
