// Text with a cache is the text without one.
#include <gtest/gtest.h>
#include <toy_lm/generation.hpp>

namespace toy_lm {
namespace {

using Tokens = std::vector<std::int64_t>;

Tokens generated(const Gpt& model, const Vocabulary& vocabulary, const Tokens& prompt, std::int64_t count,
                 const SamplerOptions& options) {
  Tokens tokens;
  generate(model, vocabulary, prompt, count, options, [&](std::int64_t token) { tokens.push_back(token); });
  return tokens;
}

/// The whole context through the model for each token.
Tokens generated_uncached(const Gpt& model, Tokens tokens, std::int64_t count, const SamplerOptions& options) {
  const tg::NoGradGuard no_grad;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t seen = std::min(static_cast<std::int64_t>(tokens.size()), model.config().context);
    const tg::Tensor logits = model.forward(tg::from_vector(Tokens(tokens.end() - seen, tokens.end()), {1, seen}));
    const double uniform = tg::rand({1}, tg::float64).item();
    tokens.push_back(sample(logits.select(1, seen - 1).to_vector<float>(), options, uniform));
  }
  return {tokens.end() - count, tokens.end()};
}

TEST(Generation, IsTheSameWithTheCache) {
  tg::manual_seed(6);
  const Vocabulary vocabulary(U"\nabcdefghijklmno");
  const Gpt model({.vocabulary = 16, .context = 12, .layers = 3, .heads = 2, .width = 16});
  for (const tg::Tensor& parameter : model.parameters()) {  // as sharp as a trained model's
    const tg::NoGradGuard no_grad;
    tg::core::copy_into(parameter.mutable_array(), (parameter * 8.0).array());
  }
  for (const Tokens& prompt :
       {Tokens{0}, Tokens{1, 2, 3, 4, 5}, Tokens(12, 7), Tokens{9, 8, 7, 6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1}})
    for (const SamplerOptions& options :
         {SamplerOptions{}, SamplerOptions{.temperature = 0}, SamplerOptions{.top_k = 3}})
      for (const std::uint64_t seed : {1, 2}) {
        tg::manual_seed(seed);
        const Tokens cached = generated(model, vocabulary, prompt, 40, options);
        tg::manual_seed(seed);
        EXPECT_EQ(cached, generated_uncached(model, prompt, 40, options));
      }
  tg::manual_seed(1);
  const Tokens started = generated(model, vocabulary, {}, 5, {});
  tg::manual_seed(1);
  EXPECT_EQ(started, generated_uncached(model, {0}, 5, {})) << "an empty prompt starts behind a line's end";
  EXPECT_TRUE(generated(model, vocabulary, {1}, 0, {}).empty());
}

TEST(Generation, TheModelsLogitsAreTheUncachedOnes) {
  tg::manual_seed(7);
  Gpt model({.vocabulary = 11, .context = 20, .layers = 2, .heads = 2, .width = 16});
  const tg::NoGradGuard no_grad;
  const tg::Tensor ids = tg::randint(0, 11, {3, 20});
  for (const auto& [dtype, tolerance] : {std::pair{tg::float32, 1e-6}, {tg::float64, 1e-14}}) {
    model.to(dtype);
    const tg::Tensor expected = model.forward(ids);
    std::vector<nn::KVCache> caches(2);
    for (std::int64_t first = 0; first < 20;) {
      const std::int64_t end = first == 0 ? 6 : first + 1;
      EXPECT_TRUE(tg::allclose(model.next(ids.slice(1, first, end), caches), expected.select(1, end - 1), tolerance,
                               tolerance));
      first = end;
    }
  }
}

}  // namespace
}  // namespace toy_lm
