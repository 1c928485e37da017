#include "attention.hpp"

#include <fmt/format.h>

#include <cmath>

#include "bad_input.hpp"
#include "model_file.hpp"

namespace toy_lm {

tg::Tensors attention_maps(const Gpt& model, const std::vector<std::int64_t>& tokens) {
  tg::NoGradGuard no_grad;
  tg::Tensors maps;
  std::vector<nn::ForwardHookHandle> hooks;
  // What a block's first norm gives is what its attention gets.
  for (const nn::TransformerBlock& block : model.blocks())
    hooks.push_back(block.norm1().register_forward_hook([&](const nn::Module&, const tg::Tensor& x) {
      maps.push_back(block.attention().attention_weights(x, {.is_causal = true}).select(0, 0));
    }));
  model.forward(tg::from_vector(tokens, {1, static_cast<std::int64_t>(tokens.size())}));
  for (nn::ForwardHookHandle& hook : hooks) hook.remove();
  return maps;
}

std::string head_report(const Gpt& model, const std::vector<std::int64_t>& tokens) {
  std::string text = "heads, by entropy, mean distance and share on the first character:";
  const tg::Tensors maps = attention_maps(model, tokens);
  for (std::size_t layer = 0; layer < maps.size(); ++layer) {
    text += fmt::format("\nlayer {}: ", layer + 1);
    for (std::int64_t head = 0; head < maps[layer].size(0); ++head) {
      const nn::HeadStatistics statistics = nn::head_statistics(maps[layer].select(0, head));
      text += fmt::format("  {:.2f} {:4.1f} {:2.0f} %", statistics.entropy, statistics.mean_distance,
                          100 * statistics.first_share);
    }
  }
  return text;
}

void show_attention(const AttentionOptions& options) {
  SavedModel saved = load_model(options.from + "/model.safetensors");
  saved.model.eval();
  auto tokens = saved.vocabulary.encode(decode_utf8(options.prompt, "--prompt"), "--prompt");
  if (tokens.empty()) throw BadInput("--prompt: must have at least one character");
  const auto all = static_cast<std::int64_t>(tokens.size()), seen = std::min(all, saved.model.config().context);
  if (seen < all) fmt::print("the model sees the last {} of {} characters\n", seen, all);
  tokens.erase(tokens.begin(), tokens.end() - seen);
  std::vector<std::string> characters;
  for (const std::int64_t token : tokens) characters.push_back(saved.vocabulary.decode(token));

  const tg::Tensors maps = attention_maps(saved.model, tokens);
  if (!options.html.empty()) {
    nn::write_attention_html(options.html, maps, characters);
    fmt::print("to explore in a browser: {}\n", options.html);
  }
  fmt::print(
      "a row is a character that looks, a column one that it looks at; weights:\n"
      "blank 0   · below .02   ░ from .02   ▒ from .1   ▓ from .25   █ from .5\n");
  for (std::size_t layer = 0; layer < maps.size(); ++layer)
    for (std::int64_t head = 0; head < maps[layer].size(0); ++head) {
      const tg::Tensor map = maps[layer].select(0, head);
      const nn::HeadStatistics statistics = nn::head_statistics(map);
      fmt::print("\nlayer {}, head {}: entropy {:.2f} of {:.2f}, mean distance {:.1f}, on the first {:.0f} %\n{}",
                 layer + 1, head + 1, statistics.entropy, std::log(static_cast<double>(seen)), statistics.mean_distance,
                 100 * statistics.first_share, nn::attention_blocks(map, characters));
    }
}

}  // namespace toy_lm
