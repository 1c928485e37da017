#include <tapegrad/nn/multi_head_attention.hpp>

#include <algorithm>
#include <cmath>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/require.hpp>
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
  require(embed_dim > 0 && num_heads > 0, "MultiHeadAttention: embed_dim and num_heads must be positive; got {} and {}",
          embed_dim, num_heads);
  if (embed_dim % num_heads != 0) {
    const std::int64_t heads = nearest_divisor(embed_dim, num_heads);
    throw ValueError(
        fmt::format("MultiHeadAttention: embed_dim must be divisible by num_heads, since the heads share the width; "
                    "got embed_dim = {} and num_heads = {}; {} heads of width {} would do",
                    embed_dim, num_heads, heads, embed_dim / heads));
  }
  return embed_dim;
}

/// The width of all key heads together.
std::int64_t key_width(std::int64_t embed_dim, std::int64_t num_heads, std::int64_t num_kv_heads) {
  require(num_kv_heads > 0 && num_heads % num_kv_heads == 0,
          "MultiHeadAttention: num_heads must be a multiple of num_kv_heads, since each key head serves as many query "
          "heads; got num_heads = {} and num_kv_heads = {}",
          num_heads, num_kv_heads);
  return embed_dim / num_heads * num_kv_heads;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiHeadAttentionOptions& options)
    : Module("MultiHeadAttention"),
      num_heads_(num_heads),
      dropout_(options.dropout),
      window_(options.window),
      q_proj_(
          register_module("q_proj", Linear(checked_width(embed_dim, num_heads), embed_dim, {.bias = options.bias}))),
      k_proj_(
          (check_sizes({{"kdim", options.kdim.value_or(0)}, {"vdim", options.vdim.value_or(0)}}),
           register_module("k_proj", Linear(options.kdim.value_or(embed_dim),
                                            key_width(embed_dim, num_heads, options.num_kv_heads.value_or(num_heads)),
                                            {.bias = options.bias})))),
      v_proj_(register_module(
          "v_proj", Linear(options.vdim.value_or(embed_dim), k_proj_.out_features(), {.bias = options.bias}))),
      out_proj_(register_module("out_proj", Linear(embed_dim, embed_dim, {.bias = options.bias}))) {
  require(dropout_ >= 0 && dropout_ <= 1, "MultiHeadAttention: dropout must be in [0, 1]; got {}", dropout_);
  if (options.rotary) rotary_.emplace(head_dim(), options.rotary_base);
  if (options.qk_norm) {
    q_norm_ = register_module("q_norm", RMSNorm(head_dim()));
    k_norm_ = register_module("k_norm", RMSNorm(head_dim()));
  }
  describe(fmt::format("embed_dim={}, num_heads={}, dropout={}", embed_dim, num_heads, dropout_) +
           (num_kv_heads() == num_heads ? "" : fmt::format(", num_kv_heads={}", num_kv_heads())));
  const bool packed = k_proj_.in_features() == embed_dim && v_proj_.in_features() == embed_dim;
  for (const Linear& projection : {q_proj_, k_proj_, v_proj_}) {
    const auto out = static_cast<double>(packed ? embed_dim + 2 * k_proj_.out_features() : projection.out_features());
    const double bound = std::sqrt(6.0 / (static_cast<double>(projection.in_features()) + out));
    init::uniform_(projection.weight(), -bound, bound);
  }
  if (options.bias)
    for (const Linear& projection : {q_proj_, k_proj_, v_proj_, out_proj_}) init::zeros_(projection.bias());
}

/// [N, L, width] -> [N, heads, L, d], a view of the projection.
Tensor MultiHeadAttention::heads_of(const char* what, const Tensor& x, const Linear& projection) const {
  const std::int64_t width = projection.in_features();
  if (!x.defined()) autograd::fail_undefined(fmt::format("MultiHeadAttention: {}", what).c_str());
  require<ShapeError>(
      x.rank() == 3, "MultiHeadAttention: {} must have three dimensions, [batch, length, {}]; got {}; use unsqueeze(0)",
      what, width, x.shape());
  require<ShapeError>(x.size(-1) == width,
                      "MultiHeadAttention: {} must have the width {} that the layer was made with (embed_dim = {}); "
                      "got {}, of width {}; project it, or make the layer for this width",
                      what, width, embed_dim(), x.shape(), x.size(-1));
  const std::int64_t heads = projection.out_features() / head_dim();
  return projection(x).reshape({x.size(0), x.size(1), heads, head_dim()}).permute({0, 2, 1, 3});
}

/// Heads of queries or keys, normalised and turned; the first of x stands at `position`.
Tensor MultiHeadAttention::placed(Tensor heads, const std::optional<RMSNorm>& norm, std::int64_t position) const {
  if (norm) heads = (*norm)(heads);
  return rotary_ ? rotary_->rotate(heads, position) : heads;
}

/// The last query stands at the last key.
MultiHeadAttention::Operands MultiHeadAttention::operands(const Tensor& query, const Tensor& key) const {
  const Tensor q = heads_of("query", query, q_proj_), k = heads_of("key", key, k_proj_);
  const std::int64_t ahead = k.size(2) - q.size(2);
  return {placed(q, q_norm_, std::max<std::int64_t>(0, ahead)), placed(k, k_norm_, std::max<std::int64_t>(0, -ahead))};
}

/// Masks with a dimension for the heads.
AttentionOptions MultiHeadAttention::in_heads(const AttendOptions& options) const {
  Mask mask = options.mask.with_head_dimension();
  if (const Tensor& real = options.key_padding_mask; real.defined()) {
    require<ShapeError>(real.rank() == 2, "MultiHeadAttention: key_padding_mask must have shape [batch, keys]; got {}",
                        real.shape());
    mask = mask & unsqueeze(unsqueeze(real, 1), 1);  // [N, 1, 1, S]
  }
  const Tensor& lengths = options.key_lengths;
  if (lengths.defined())
    require<ShapeError>(lengths.rank() == 1, "MultiHeadAttention: key_lengths must have shape [batch]; got {}",
                        lengths.shape());
  return {.mask = mask,
          .bias = options.bias,
          .is_causal = options.is_causal,
          .window = window_,
          .dropout_p = is_training() ? dropout_ : 0.0,
          .need_weights = false,
          .key_lengths = lengths.defined() ? unsqueeze(lengths, 1) : lengths,  // [N, 1]
          .enable_gqa = num_kv_heads() != num_heads_};
}

/// [N, H, L, d] -> [N, L, E]: a view of what attention gives, then projected.
Tensor MultiHeadAttention::merged(const Tensor& heads) const {
  return finished(out_proj_(heads.permute({0, 2, 1, 3}).reshape({heads.size(0), heads.size(2), embed_dim()})));
}

Tensor MultiHeadAttention::forward(const Operand& query, const Tensor& key, const Tensor& value,
                                   const AttendOptions& options) const {
  const auto here = scope();
  const auto [q, k] = operands(query, key);            // [N, H, L, d], [N, Hkv, S, d]
  const Tensor v = heads_of("value", value, v_proj_);  // [N, Hkv, S, d]
  return merged(scaled_dot_product_attention(q, k, v, in_heads(options)).output);
}

Tensor MultiHeadAttention::forward(const Operand& x, KVCache& cache) const {
  const auto here = scope();
  const Tensor q = placed(heads_of("query", x, q_proj_), q_norm_, cache.length());  // [N, H, L, d]
  const Tensor k = placed(heads_of("key", x, k_proj_), k_norm_, cache.length());    // [N, Hkv, L, d]
  const Tensor v = heads_of("value", x, v_proj_);                                   // [N, Hkv, L, d]
  require<GradError>(!q.requires_grad() && !k.requires_grad() && !v.requires_grad(),
                     "MultiHeadAttention: a cache keeps values, not their gradients; got a call with it that would be "
                     "recorded; put a NoGradGuard around it");
  const KVCache::Entries all = cache.append(k, v, window_ ? std::optional(window_->left) : std::nullopt);
  AttentionOptions options = in_heads({.is_causal = true});
  if (x.size(1) == 1) {  // one query sees everything that the cache gives
    options.is_causal = false;
    options.window.reset();
  }
  return merged(scaled_dot_product_attention(q, Tensor(all.keys), Tensor(all.values), options).output);
}

Tensor MultiHeadAttention::attention_weights(const Operand& query, const Tensor& key,
                                             const AttendOptions& options) const {
  const auto here = scope();
  const auto [q, k] = operands(query, key);
  AttentionOptions with_weights = in_heads(options);
  with_weights.dropout_p = 0.0;
  with_weights.need_weights = true;
  const Tensor weights = scaled_dot_product_attention(q, k, k, with_weights).weights;
  return options.average_weights ? weights.mean(1) : weights;
}

SelfAttention::SelfAttention(std::int64_t d_model) : Module("SelfAttention"), d_model_(d_model) {
  require(d_model > 0, "SelfAttention: d_model must be positive; got {}", d_model);
  describe(fmt::format("d_model={}", d_model));
}

AttentionResult SelfAttention::forward(const Operand& x, const AttentionOptions& options) const {
  const auto here = scope();
  autograd::check_defined("SelfAttention", x);
  require<ShapeError>(x.rank() >= 2 && x.size(-1) == d_model_,
                      "SelfAttention: the input must be [..., length, d_model = {}]; got {}", d_model_, x.shape());
  AttentionResult result = scaled_dot_product_attention(x, x, x, options);
  result.output = finished(result.output);
  return result;
}

}  // namespace tapegrad::nn
