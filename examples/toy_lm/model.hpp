// A small GPT (Radford et al., 2019): pre-norm blocks, causal attention, head tied to the embedding.
#pragma once
#include <optional>
#include <string>
#include <tapegrad/tapegrad.hpp>

namespace toy_lm {

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

struct GptConfig {
  std::int64_t vocabulary = 0;
  std::int64_t context = 64;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;
  double dropout = 0.0;
  /// "gpt2": learned positions, LayerNorm, GELU. "modern": rotary positions, RMSNorm, SwiGLU, normalised queries and
  /// keys; not more parameters.
  std::string blocks = "gpt2";
  bool bias = false;
  nn::FeedForward feed_forward = nn::FeedForward::gelu;
};

class Gpt : public nn::Module {
 public:
  /// GPT-2's initialisation: every matrix from N(0, 0.02^2), those that write to the residual stream smaller by
  /// 1/sqrt(2 layers).
  explicit Gpt(const GptConfig& config);

  /// ids [batch, time], time at most the context -> logits [batch, time, vocabulary].
  tg::Tensor forward(const tg::Tensor& ids) const;
  /// ids [batch, time], the tokens behind those that `caches` have seen, one cache for each layer -> the logits of the
  /// last one, [batch, vocabulary]. All tokens together are at most the context.
  tg::Tensor next(const tg::Tensor& ids, std::vector<nn::KVCache>& caches) const;
  /// The mean cross entropy of predicting targets [batch, time].
  tg::Tensor loss(const tg::Tensor& ids, const tg::Tensor& targets) const;

  const GptConfig& config() const { return config_; }
  const nn::ModuleList<nn::TransformerBlock>& blocks() const { return blocks_; }

 private:
  tg::Tensor embedded(const tg::Tensor& ids, std::int64_t first_position) const;
  tg::Tensor logits(const tg::Tensor& x) const;

  GptConfig config_;
  nn::Embedding token_;
  std::optional<nn::Embedding> position_;
  nn::Dropout dropout_;
  nn::ModuleList<nn::TransformerBlock> blocks_;
  nn::Norm norm_;
};

}  // namespace toy_lm
