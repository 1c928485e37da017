#include "model.hpp"

#include <cmath>

namespace toy_lm {
namespace {

bool is_modern(const GptConfig& config) { return config.blocks == "modern"; }

std::vector<nn::TransformerBlock> make_blocks(const GptConfig& config) {
  nn::TransformerBlockOptions options{
      .dropout = config.dropout, .bias = config.bias, .feed_forward = config.feed_forward};
  if (is_modern(config)) {
    options.mlp_ratio = 2.625;  // about 8/3, in whole vectors of a processor
    options.norm = nn::NormKind::rms;
    options.feed_forward = nn::FeedForward::swiglu;
    options.rotary = true;
    options.qk_norm = true;
  }
  std::vector<nn::TransformerBlock> blocks;
  for (std::int64_t i = 0; i < config.layers; ++i) blocks.emplace_back(config.width, config.heads, options);
  return blocks;
}

nn::Norm make_norm(const GptConfig& config) {
  if (is_modern(config)) return nn::RMSNorm(config.width);
  return nn::LayerNorm(config.width, {.bias = config.bias});
}

}  // namespace

Gpt::Gpt(const GptConfig& config)
    : Module("Gpt"),
      config_(config),
      token_(register_module("token", nn::Embedding(config.vocabulary, config.width))),
      position_(is_modern(config)
                    ? std::nullopt
                    : std::optional(register_module("position", nn::Embedding(config.context, config.width)))),
      dropout_(register_module("dropout", nn::Dropout(config.dropout))),
      blocks_(register_module("blocks", nn::ModuleList<nn::TransformerBlock>(make_blocks(config)))),
      norm_(register_module("norm", make_norm(config))) {
  for (const auto& [name, parameter] : named_parameters())
    if (parameter.rank() == 2) nn::init::normal_(parameter, 0.0, 0.02);
  const double residual_std = 0.02 / std::sqrt(2.0 * static_cast<double>(config.layers));
  for (const nn::TransformerBlock& block : blocks_) {
    nn::init::normal_(block.attention().out_proj().weight(), 0.0, residual_std);
    nn::init::normal_(block.linear2().weight(), 0.0, residual_std);
  }
}

/// [batch, time, width]
tg::Tensor Gpt::embedded(const tg::Tensor& ids, std::int64_t first_position) const {
  const tg::Tensor tokens = token_(ids);
  if (!position_) return dropout_(tokens);
  return dropout_(tokens + (*position_)(tg::arange(first_position, first_position + ids.size(1))));
}

tg::Tensor Gpt::logits(const tg::Tensor& x) const { return tg::linear(norm_(x), token_.weight()); }

tg::Tensor Gpt::forward(const tg::Tensor& ids) const {
  const auto here = scope();
  tg::Tensor x = embedded(ids, 0);
  for (const nn::TransformerBlock& block : blocks_) x = block(x, {.is_causal = true});
  return logits(x);
}

tg::Tensor Gpt::next(const tg::Tensor& ids, std::vector<nn::KVCache>& caches) const {
  const auto here = scope();
  tg::Tensor x = embedded(ids, caches.at(0).length());
  for (std::size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i](x, caches.at(i));
  return logits(x.select(1, x.size(1) - 1));
}

tg::Tensor Gpt::loss(const tg::Tensor& ids, const tg::Tensor& targets) const {
  return nn::cross_entropy(forward(ids).reshape({-1, config_.vocabulary}), targets.reshape({-1}));
}

}  // namespace toy_lm
