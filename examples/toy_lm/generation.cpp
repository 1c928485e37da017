#include "generation.hpp"

#include <cstdio>

#include "model_file.hpp"

namespace toy_lm {
namespace {

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

void generate(const Gpt& model, const Vocabulary& vocabulary, std::vector<std::int64_t> prompt, std::int64_t count,
              const SamplerOptions& options, const std::function<void(std::int64_t token)>& on_token) {
  tg::NoGradGuard no_grad;
  std::vector<std::int64_t>& tokens = prompt;
  if (tokens.empty())
    tokens = vocabulary.contains(U'\n') ? vocabulary.encode(U"\n", "start") : std::vector<std::int64_t>{0};
  std::vector<nn::KVCache> caches(static_cast<std::size_t>(model.config().layers), nn::KVCache(model.config().context));
  for (std::int64_t i = 0; i < count; ++i) {
    if (const auto size = static_cast<std::int64_t>(tokens.size()); size > model.config().context) {
      tokens.erase(tokens.begin(), tokens.end() - model.config().context);
      for (nn::KVCache& cache : caches) cache.reset();
    }
    const std::vector<std::int64_t> fresh(tokens.begin() + caches[0].length(), tokens.end());
    const tg::Tensor logits = model.next(tg::from_vector(fresh, {1, static_cast<std::int64_t>(fresh.size())}), caches);
    const double uniform = tg::rand({1}, tg::float64).item();
    tokens.push_back(sample(logits.to_vector<float>(), options, uniform));
    on_token(tokens.back());
  }
}

void generate_text(const GenerateOptions& options) {
  const SavedModel saved = load_model(options.from + "/model.safetensors");
  const auto prompt = saved.vocabulary.encode(decode_utf8(options.prompt, "--prompt"), "--prompt");
  tg::manual_seed(static_cast<std::uint64_t>(options.seed));
  print(options.prompt);
  generate(saved.model, saved.vocabulary, prompt, options.tokens, options.sampler,
           [&](std::int64_t token) { print(saved.vocabulary.decode(token)); });
  print("\n");
}

}  // namespace toy_lm
