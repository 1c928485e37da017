#include <tapegrad/nn/transformer.hpp>

#include <cmath>

#include <fmt/format.h>

#include <tapegrad/autograd/elementwise.hpp>

namespace tapegrad::nn {
namespace {

std::int64_t hidden_width(std::int64_t embed_dim, double ratio) {
  const double width = std::round(ratio * static_cast<double>(embed_dim));
  if (!(width >= 1 && width < 1e15))
    throw ValueError(
        fmt::format("TransformerBlock: mlp_ratio must give a hidden layer of at least one; got {}", ratio));
  return static_cast<std::int64_t>(width);
}

}  // namespace

TransformerBlock::TransformerBlock(std::int64_t embed_dim, std::int64_t num_heads,
                                   const TransformerBlockOptions& options)
    : Module("TransformerBlock"),
      norm1_(register_module("norm1", LayerNorm(embed_dim, {.eps = options.layer_norm_eps, .bias = options.bias}))),
      attention_(register_module(
          "attention", MultiHeadAttention(embed_dim, num_heads, {.dropout = options.dropout, .bias = options.bias}))),
      norm2_(register_module("norm2", LayerNorm(embed_dim, {.eps = options.layer_norm_eps, .bias = options.bias}))),
      linear1_(register_module("linear1",
                               Linear(embed_dim, hidden_width(embed_dim, options.mlp_ratio), {.bias = options.bias}))),
      linear2_(register_module("linear2", Linear(linear1_.out_features(), embed_dim, {.bias = options.bias}))),
      dropout_(register_module("dropout", Dropout(options.dropout))) {}

Tensor TransformerBlock::forward(const Tensor& x, const AttendOptions& options) const {
  const auto here = scope();
  const Tensor y = x + dropout_(attention_(norm1_(x), options));
  return finished(y + dropout_(linear2_.of_gelu(linear1_(norm2_(y)))));
}

}  // namespace tapegrad::nn
