#include <tapegrad/nn/transformer_layers.hpp>

#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {
namespace {

MultiHeadAttention attention(std::int64_t width, std::int64_t heads, const TransformerLayerOptions& options) {
  return {width, heads, {.dropout = options.dropout, .bias = options.bias}};
}

Linear linear_layer(std::int64_t in, std::int64_t out, const TransformerLayerOptions& options) {
  require(options.dim_feedforward >= 1, "TransformerLayerOptions: dim_feedforward must be positive; got {}",
          options.dim_feedforward);
  return {in, out, {.bias = options.bias}};
}

LayerNorm norm(std::int64_t width, const TransformerLayerOptions& options) {
  return LayerNorm(width, {.eps = options.layer_norm_eps, .bias = options.bias});
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : Module("TransformerEncoderLayer"),
      self_attn_(register_module("self_attn", attention(d_model, nhead, options))),
      linear1_(register_module("linear1", linear_layer(d_model, options.dim_feedforward, options))),
      dropout_(register_module("dropout", Dropout(options.dropout))),
      linear2_(register_module("linear2", linear_layer(options.dim_feedforward, d_model, options))),
      norm1_(register_module("norm1", norm(d_model, options))),
      norm2_(register_module("norm2", norm(d_model, options))),
      dropout1_(register_module("dropout1", Dropout(options.dropout))),
      dropout2_(register_module("dropout2", Dropout(options.dropout))),
      activation_(options.activation),
      norm_first_(options.norm_first) {}

Tensor TransformerEncoderLayer::forward(const Operand& x, const AttendOptions& options) const {
  const auto here = scope();
  const Tensor y = residual(x, norm1_, norm_first_, dropout1_, [&](const Tensor& h) { return self_attn_(h, options); });
  return finished(residual(y, norm2_, norm_first_, dropout2_, [&](const Tensor& h) {
    return feed_forward(h, linear1_, activation_, linear2_, &dropout_);
  }));
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : Module("TransformerDecoderLayer"),
      self_attn_(register_module("self_attn", attention(d_model, nhead, options))),
      multihead_attn_(register_module("multihead_attn", attention(d_model, nhead, options))),
      linear1_(register_module("linear1", linear_layer(d_model, options.dim_feedforward, options))),
      dropout_(register_module("dropout", Dropout(options.dropout))),
      linear2_(register_module("linear2", linear_layer(options.dim_feedforward, d_model, options))),
      norm1_(register_module("norm1", norm(d_model, options))),
      norm2_(register_module("norm2", norm(d_model, options))),
      norm3_(register_module("norm3", norm(d_model, options))),
      dropout1_(register_module("dropout1", Dropout(options.dropout))),
      dropout2_(register_module("dropout2", Dropout(options.dropout))),
      dropout3_(register_module("dropout3", Dropout(options.dropout))),
      activation_(options.activation),
      norm_first_(options.norm_first) {}

Tensor TransformerDecoderLayer::forward(const Operand& x, const Tensor& memory, const DecodeOptions& options) const {
  const auto here = scope();
  const Tensor y =
      residual(x, norm1_, norm_first_, dropout1_, [&](const Tensor& h) { return self_attn_(h, options.target); });
  const Tensor z = residual(y, norm2_, norm_first_, dropout2_,
                            [&](const Tensor& h) { return multihead_attn_(h, memory, memory, options.memory); });
  return finished(residual(z, norm3_, norm_first_, dropout3_, [&](const Tensor& h) {
    return feed_forward(h, linear1_, activation_, linear2_, &dropout_);
  }));
}

template <class Layer>
TransformerStack<Layer>::TransformerStack(const char* type, std::int64_t d_model, std::int64_t nhead,
                                          std::int64_t num_layers, const TransformerLayerOptions& options,
                                          std::optional<LayerNorm> norm)
    : Module(type), layers_(register_module("layers", ModuleList<Layer>())) {
  require(num_layers >= 1, "{}: num_layers must be positive; got {}", type, num_layers);
  for (std::int64_t i = 0; i < num_layers; ++i) layers_.append(Layer(d_model, nhead, options));
  if (norm) norm_ = register_module("norm", *std::move(norm));
}

TransformerEncoder::TransformerEncoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                                       const TransformerLayerOptions& options, std::optional<LayerNorm> norm)
    : TransformerStack("TransformerEncoder", d_model, nhead, num_layers, options, std::move(norm)) {}

TransformerDecoder::TransformerDecoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                                       const TransformerLayerOptions& options, std::optional<LayerNorm> norm)
    : TransformerStack("TransformerDecoder", d_model, nhead, num_layers, options, std::move(norm)) {}

}  // namespace tapegrad::nn
