// Text from a model, character by character.
#pragma once
#include <functional>
#include <string>

#include "model.hpp"
#include "sampler.hpp"
#include "text.hpp"

namespace toy_lm {

/// Draws `count` tokens that go on from `prompt` and hands each to `on_token` as soon as it is there. The model sees
/// the last `context` tokens, at positions from 0 on: up to the context each costs one step, beyond it all positions
/// change with each token, and with them all that was computed. An empty prompt starts as after a line's end. Draws
/// from this thread's random generator.
void generate(const Gpt& model, const Vocabulary& vocabulary, std::vector<std::int64_t> prompt, std::int64_t count,
              const SamplerOptions& options, const std::function<void(std::int64_t token)>& on_token);

struct GenerateOptions {
  std::string from = "toy_lm-out";
  std::string prompt;
  std::int64_t tokens = 500;
  SamplerOptions sampler;
  std::int64_t seed = 1337;
};
/// Checks everything (BadInput), then prints the prompt and what follows it.
void generate_text(const GenerateOptions& options);

}  // namespace toy_lm
