// The layers of the first transformer (Vaswani et al., 2017), under PyTorch's names and with its defaults; batch first.
#pragma once
#include <tapegrad/nn/containers.hpp>
#include <tapegrad/nn/transformer.hpp>

namespace tapegrad::nn {

struct TransformerLayerOptions {
  /// Width of the hidden layer.
  std::int64_t dim_feedforward = 2048;
  /// In training: of attention weights, of the hidden layer, and of every residual branch.
  double dropout = 0.1;
  Activation activation = Activation::relu;
  double layer_norm_eps = 1e-5;
  /// Norms in front of each step, not behind its sum.
  bool norm_first = false;
  /// Of the linear layers and the norms.
  bool bias = true;
};

/// Self-attention, then linear2(activation(linear1(x))), each with a residual path and a norm. A TransformerBlock is
/// this layer with norm_first and gelu, under shorter names.
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerLayerOptions& options = {});

  /// x [N, L, d_model] -> the same shape, whatever is masked.
  Tensor forward(const Operand& x, const AttendOptions& options = {}) const;
  Tensor operator()(const Operand& x, const AttendOptions& options = {}) const { return forward(x, options); }

  const MultiHeadAttention& self_attn() const { return self_attn_; }

 private:
  MultiHeadAttention self_attn_;
  Linear linear1_;
  Dropout dropout_;
  Linear linear2_;
  LayerNorm norm1_, norm2_;
  Dropout dropout1_, dropout2_;
  Activation activation_;
  bool norm_first_;
};

/// What a decoder's two attentions may look at.
struct DecodeOptions {
  /// Of the target among itself: usually {.is_causal = true}.
  AttendOptions target = {};
  /// Of the target in the memory.
  AttendOptions memory = {};
};

/// Self-attention, cross-attention into the memory, then linear2(activation(linear1(x))), each with a residual path and
/// a norm.
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, const TransformerLayerOptions& options = {});

  /// x [N, L, d_model], memory [N, S, d_model] -> the shape of x.
  Tensor forward(const Operand& x, const Tensor& memory, const DecodeOptions& options = {}) const;
  Tensor operator()(const Operand& x, const Tensor& memory, const DecodeOptions& options = {}) const {
    return forward(x, memory, options);
  }

  const MultiHeadAttention& self_attn() const { return self_attn_; }
  const MultiHeadAttention& multihead_attn() const { return multihead_attn_; }

 private:
  MultiHeadAttention self_attn_, multihead_attn_;
  Linear linear1_;
  Dropout dropout_;
  Linear linear2_;
  LayerNorm norm1_, norm2_, norm3_;
  Dropout dropout1_, dropout2_, dropout3_;
  Activation activation_;
  bool norm_first_;
};

/// `num_layers` layers in a row, "layers.0", "layers.1", ..., and a norm behind them if one is given. Each layer is
/// drawn for itself; PyTorch copies one layer, so that its layers start out equal.
template <class Layer>
class TransformerStack : public Module {
 public:
  const ModuleList<Layer>& layers() const { return layers_; }

 protected:
  /// ValueError unless there is a layer.
  TransformerStack(const char* type, std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                   const TransformerLayerOptions& options, std::optional<LayerNorm> norm);
  template <class Call>
  Tensor run(Tensor x, const Call& call) const {
    const auto here = scope();
    for (const Layer& layer : layers_) x = call(layer, x);
    return finished(norm_ ? (*norm_)(x) : x);
  }

 private:
  ModuleList<Layer> layers_;
  std::optional<LayerNorm> norm_;
};

/// Encoder layers. A pre-norm encoder usually ends in a norm: TransformerEncoder(64, 4, 6, {.norm_first = true},
/// LayerNorm(64)).
class TransformerEncoder : public TransformerStack<TransformerEncoderLayer> {
 public:
  TransformerEncoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                     const TransformerLayerOptions& options = {}, std::optional<LayerNorm> norm = {});

  /// x [N, L, d_model] -> the same shape; `options` go to every layer.
  Tensor forward(const Operand& x, const AttendOptions& options = {}) const {
    return run(x, [&](const TransformerEncoderLayer& layer, const Tensor& h) { return layer(h, options); });
  }
  Tensor operator()(const Operand& x, const AttendOptions& options = {}) const { return forward(x, options); }
};

/// Decoder layers, all of which look into the same memory.
class TransformerDecoder : public TransformerStack<TransformerDecoderLayer> {
 public:
  TransformerDecoder(std::int64_t d_model, std::int64_t nhead, std::int64_t num_layers,
                     const TransformerLayerOptions& options = {}, std::optional<LayerNorm> norm = {});

  /// x [N, L, d_model], memory [N, S, d_model] -> the shape of x; `options` go to every layer.
  Tensor forward(const Operand& x, const Tensor& memory, const DecodeOptions& options = {}) const {
    return run(x, [&](const TransformerDecoderLayer& layer, const Tensor& h) { return layer(h, memory, options); });
  }
  Tensor operator()(const Operand& x, const Tensor& memory, const DecodeOptions& options = {}) const {
    return forward(x, memory, options);
  }
};

}  // namespace tapegrad::nn
