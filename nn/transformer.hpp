// The block that transformers are stacked from, and the two steps that all their layers are made of.
#pragma once
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/nn/dropout.hpp>
#include <tapegrad/nn/layer_norm.hpp>
#include <tapegrad/nn/linear.hpp>
#include <tapegrad/nn/multi_head_attention.hpp>

namespace tapegrad::nn {

/// One step with its residual path: x + dropout(step(norm(x))), or norm(x + dropout(step(x))) if the norm comes last.
template <class Step>
Tensor residual(const Tensor& x, const LayerNorm& norm, bool norm_first, const Dropout& dropout, const Step& step) {
  return norm_first ? x + dropout(step(norm(x))) : norm(x + dropout(step(x)));
}

enum class Activation { relu, gelu };
/// outer(dropout(activation(inner(x)))): the step that each position takes by itself. A dropout that has nothing to do,
/// or is null, is not called.
Tensor feed_forward(const Tensor& x, const Linear& inner, Activation activation, const Linear& outer,
                    const Dropout* dropout = nullptr);

struct TransformerBlockOptions {
  /// In training: of attention weights, and of both residual branches.
  double dropout = 0.0;
  /// Width of the hidden layer, in widths of the block.
  double mlp_ratio = 4.0;
  /// Of the linear layers and the norms.
  bool bias = true;
  double layer_norm_eps = 1e-5;
};

/// Pre-norm: x + attention(norm1(x)), then x + linear2(gelu(linear1(norm2(x)))).
class TransformerBlock : public Module {
 public:
  TransformerBlock(std::int64_t embed_dim, std::int64_t num_heads, const TransformerBlockOptions& options = {});

  /// x [N, L, embed_dim] -> the same shape.
  Tensor forward(const Tensor& x, const AttendOptions& options = {}) const;
  /// Causal, after the tokens in `cache`: MultiHeadAttention::forward(x, cache).
  Tensor forward(const Tensor& x, KVCache& cache) const;
  Tensor operator()(const Tensor& x, const AttendOptions& options = {}) const { return forward(x, options); }
  Tensor operator()(const Tensor& x, KVCache& cache) const { return forward(x, cache); }
  Tensor operator()(const Tensor& x, const Mask& mask) const { return forward(x, {.mask = mask}); }

  const LayerNorm& norm1() const { return norm1_; }
  const MultiHeadAttention& attention() const { return attention_; }
  const LayerNorm& norm2() const { return norm2_; }
  const Linear& linear1() const { return linear1_; }
  const Linear& linear2() const { return linear2_; }

 private:
  template <class Attend>
  Tensor run(const Tensor& x, const Attend& attend) const;

  LayerNorm norm1_;
  MultiHeadAttention attention_;
  LayerNorm norm2_;
  Linear linear1_;
  Linear linear2_;
  Dropout dropout_;
};

}  // namespace tapegrad::nn
