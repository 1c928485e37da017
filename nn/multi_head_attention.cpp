#include <tapegrad/nn/multi_head_attention.hpp>

#include <cmath>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/nn/init.hpp>

namespace tapegrad::nn {
namespace {

/// The number of heads nearest to `wanted` that divides the width.
std::int64_t nearest_divisor(std::int64_t width, std::int64_t wanted) {
  for (std::int64_t distance = 0;; ++distance)
    for (const std::int64_t heads : {wanted + distance, wanted - distance})
      if (heads > 0 && width % heads == 0) return heads;
}

std::int64_t checked_width(std::int64_t embed_dim, std::int64_t num_heads) {
  if (embed_dim <= 0 || num_heads <= 0)
    throw ValueError(fmt::format("MultiHeadAttention: embed_dim and num_heads must be positive; got {} and {}",
                                 embed_dim, num_heads));
  if (embed_dim % num_heads != 0) {
    const std::int64_t heads = nearest_divisor(embed_dim, num_heads);
    throw ValueError(
        fmt::format("MultiHeadAttention: embed_dim must be divisible by num_heads, since the heads share the width; "
                    "got embed_dim = {} and num_heads = {}; {} heads of width {} would do",
                    embed_dim, num_heads, heads, embed_dim / heads));
  }
  return embed_dim;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiHeadAttentionOptions& options)
    : Module("MultiHeadAttention"),
      num_heads_(num_heads),
      dropout_(options.dropout),
      q_proj_(
          register_module("q_proj", Linear(checked_width(embed_dim, num_heads), embed_dim, {.bias = options.bias}))),
      k_proj_(register_module("k_proj", Linear(options.kdim.value_or(embed_dim), embed_dim, {.bias = options.bias}))),
      v_proj_(register_module("v_proj", Linear(options.vdim.value_or(embed_dim), embed_dim, {.bias = options.bias}))),
      out_proj_(register_module("out_proj", Linear(embed_dim, embed_dim, {.bias = options.bias}))) {
  if (!(dropout_ >= 0 && dropout_ <= 1))
    throw ValueError(fmt::format("MultiHeadAttention: dropout must be in [0, 1]; got {}", dropout_));
  describe(fmt::format("embed_dim={}, num_heads={}, dropout={}", embed_dim, num_heads, dropout_));
  const bool packed = k_proj_.in_features() == embed_dim && v_proj_.in_features() == embed_dim;
  for (const Linear& projection : {q_proj_, k_proj_, v_proj_}) {
    const double out = static_cast<double>(packed ? 3 * embed_dim : embed_dim);
    const double bound = std::sqrt(6.0 / (static_cast<double>(projection.in_features()) + out));
    init::uniform_(projection.weight(), -bound, bound);
  }
  if (options.bias)
    for (const Linear& projection : {q_proj_, k_proj_, v_proj_, out_proj_}) init::zeros_(projection.bias());
}

/// [N, L, width] -> [N, H, L, d], a view of the projection.
Tensor MultiHeadAttention::projected(const char* what, const Tensor& x, const Linear& projection) const {
  const std::int64_t width = projection.in_features();
  if (x.rank() != 3)
    throw ShapeError(
        fmt::format("MultiHeadAttention: {} must have three dimensions, [batch, length, {}]; got {}; use unsqueeze(0)",
                    what, width, x.shape()));
  if (x.size(-1) != width)
    throw ShapeError(
        fmt::format("MultiHeadAttention: {} must have the width {} that the layer was made with (embed_dim = {}); got "
                    "{}, of width {}; project it, or make the layer for this width",
                    what, width, embed_dim(), x.shape(), x.size(-1)));
  return projection(x).reshape({x.size(0), x.size(1), num_heads_, head_dim()}).permute({0, 2, 1, 3});
}

/// Masks with a dimension for the heads.
AttentionOptions MultiHeadAttention::in_heads(const AttendOptions& options) const {
  Mask mask = options.mask.with_head_dimension();
  if (const Tensor& real = options.key_padding_mask; real.defined()) {
    if (real.rank() != 2)
      throw ShapeError(
          fmt::format("MultiHeadAttention: key_padding_mask must have shape [batch, keys]; got {}", real.shape()));
    mask = mask & unsqueeze(unsqueeze(real, 1), 1);  // [N, 1, 1, S]
  }
  return {.mask = mask,
          .bias = options.bias,
          .is_causal = options.is_causal,
          .dropout_p = is_training() ? dropout_ : 0.0,
          .need_weights = false};
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttendOptions& options) const {
  const auto here = scope();
  const Tensor q = projected("query", query, q_proj_);                                   // [N, H, L, d]
  const Tensor k = projected("key", key, k_proj_);                                       // [N, H, S, d]
  const Tensor v = projected("value", value, v_proj_);                                   // [N, H, S, d]
  const Tensor heads = scaled_dot_product_attention(q, k, v, in_heads(options)).output;  // [N, H, L, d]
  return finished(out_proj_(heads.permute({0, 2, 1, 3}).reshape({heads.size(0), heads.size(2), embed_dim()})));
}

Tensor MultiHeadAttention::attention_weights(const Tensor& query, const Tensor& key,
                                             const AttendOptions& options) const {
  const auto here = scope();
  const Tensor q = projected("query", query, q_proj_), k = projected("key", key, k_proj_);
  AttentionOptions with_weights = in_heads(options);
  with_weights.dropout_p = 0.0;
  with_weights.need_weights = true;
  return scaled_dot_product_attention(q, k, k, with_weights).weights;
}

SelfAttention::SelfAttention(std::int64_t d_model) : Module("SelfAttention"), d_model_(d_model) {
  if (d_model <= 0) throw ValueError(fmt::format("SelfAttention: d_model must be positive; got {}", d_model));
  describe(fmt::format("d_model={}", d_model));
}

AttentionResult SelfAttention::forward(const Tensor& x, const AttentionOptions& options) const {
  const auto here = scope();
  if (x.rank() < 2 || x.size(-1) != d_model_)
    throw ShapeError(
        fmt::format("SelfAttention: the input must be [..., length, d_model = {}]; got {}", d_model_, x.shape()));
  AttentionResult result = scaled_dot_product_attention(x, x, x, options);
  result.output = finished(result.output);
  return result;
}

}  // namespace tapegrad::nn
