#include <tapegrad/nn/transformer.hpp>

#include <cmath>

#include <tapegrad/core/require.hpp>
#include <tapegrad/nn/activations.hpp>

namespace tapegrad::nn {
namespace {

std::int64_t hidden_width(std::int64_t embed_dim, double ratio) {
  const double width = std::round(ratio * static_cast<double>(embed_dim));
  require(width >= 1 && width < 1e15, "TransformerBlock: mlp_ratio must give a hidden layer of at least one; got {}",
          ratio);
  return static_cast<std::int64_t>(width);
}

Norm norm(std::int64_t width, const TransformerBlockOptions& options) {
  if (options.norm == NormKind::rms) return RMSNorm(width, options.layer_norm_eps);
  return LayerNorm(width, {.eps = options.layer_norm_eps, .bias = options.bias});
}

}  // namespace

Tensor feed_forward(const Operand& x, const Linear& inner, Activation activation, const Linear& outer,
                    const Dropout* dropout) {
  const Tensor hidden = inner(x);
  const bool drops = dropout && dropout->is_training() && dropout->p() > 0;
  if (activation == Activation::gelu && !drops) return outer.of_gelu(hidden);
  const auto approximate = activation == Activation::gelu_tanh ? GeluApproximation::tanh : GeluApproximation::none;
  const Tensor active = activation == Activation::relu ? relu(hidden) : gelu(hidden, approximate);
  return outer(drops ? (*dropout)(active) : active);
}

TransformerBlock::TransformerBlock(std::int64_t embed_dim, std::int64_t num_heads,
                                   const TransformerBlockOptions& options)
    : Module("TransformerBlock"),
      norm1_((check_sizes({{"embed_dim", embed_dim}}), register_module("norm1", norm(embed_dim, options)))),
      attention_(register_module("attention", MultiHeadAttention(embed_dim, num_heads,
                                                                 {.dropout = options.dropout,
                                                                  .bias = options.bias,
                                                                  .num_kv_heads = options.num_kv_heads,
                                                                  .rotary = options.rotary,
                                                                  .rotary_base = options.rotary_base,
                                                                  .qk_norm = options.qk_norm,
                                                                  .window = options.window}))),
      norm2_(register_module("norm2", norm(embed_dim, options))),
      mlp_(options.feed_forward != FeedForward::swiglu
               ? std::optional<SwiGLU>()
               : register_module(
                     "mlp", SwiGLU(embed_dim, hidden_width(embed_dim, options.mlp_ratio), {.bias = options.bias}))),
      linear1_(mlp_ ? mlp_->up_proj()
                    : register_module("linear1", Linear(embed_dim, hidden_width(embed_dim, options.mlp_ratio),
                                                        {.bias = options.bias}))),
      linear2_(mlp_ ? mlp_->down_proj()
                    : register_module("linear2", Linear(linear1_.out_features(), embed_dim, {.bias = options.bias}))),
      dropout_(register_module("dropout", Dropout(options.dropout))),
      activation_(options.feed_forward == FeedForward::relu        ? Activation::relu
                  : options.feed_forward == FeedForward::gelu_tanh ? Activation::gelu_tanh
                                                                   : Activation::gelu) {}

template <class Attend>
Tensor TransformerBlock::run(const Tensor& x, const Attend& attend) const {
  const auto here = scope();
  const Tensor y = residual(x, norm1_, true, dropout_, attend);
  return finished(residual(y, norm2_, true, dropout_, [&](const Tensor& h) {
    return mlp_ ? (*mlp_)(h) : feed_forward(h, linear1_, activation_, linear2_);
  }));
}

Tensor TransformerBlock::forward(const Operand& x, const AttendOptions& options) const {
  return run(x, [&](const Tensor& h) { return attention_(h, options); });
}

Tensor TransformerBlock::forward(const Operand& x, KVCache& cache) const {
  return run(x, [&](const Tensor& h) { return attention_(h, cache); });
}

}  // namespace tapegrad::nn
