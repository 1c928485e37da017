// Several threads train a model each: they share nothing that anybody could see.
#include <gtest/gtest.h>

#include <thread>

#include "autograd/expectations.hpp"

namespace tapegrad {
namespace {

using expectations::bytes_of;

/// A small transformer for sequences, trained for some steps from `seed`; the bytes of all that is left.
std::vector<std::string> trained(std::uint64_t seed) {
  manual_seed(seed);
  nn::Embedding embedding(11, 16);
  nn::TransformerBlock block(16, 2, {.dropout = 0.1});
  nn::Linear head(16, 11);
  Tensors parameters;
  for (const nn::Module* module : {static_cast<const nn::Module*>(&embedding), static_cast<const nn::Module*>(&block),
                                   static_cast<const nn::Module*>(&head)})
    for (const Tensor& parameter : module->parameters()) parameters.push_back(parameter);
  optim::AdamW optimizer(parameters, {.lr = 1e-2});
  std::vector<std::string> results;
  for (int step = 0; step < 12; ++step) {
    const Tensor tokens = randint(0, 11, {4, 6});
    optimizer.zero_grad();
    const auto body = [&](const Tensors& in) { return block(in[0], {.is_causal = true}); };
    const Tensor hidden = step % 2 ? autograd::checkpoint(body, {embedding(tokens)}) : body({embedding(tokens)});
    const Tensor loss = nn::cross_entropy(head(hidden).reshape({24, 11}), tokens.reshape({24}));
    loss.backward();
    optim::clip_grad_norm(parameters, 1.0);
    optimizer.step();
    results.push_back(bytes_of(loss.detach()));
  }
  for (const Tensor& parameter : parameters) results.push_back(bytes_of(parameter.detach()));
  return results;
}

TEST(SideBySide, EightThreadsGiveTheBitsThatTheyGiveAlone) {
  constexpr std::uint64_t kModels = 8;
  std::vector<std::vector<std::string>> alone, together(kModels);
  for (std::uint64_t i = 0; i < kModels; ++i) alone.push_back(trained(i));
  EXPECT_FALSE(alone[0] == alone[1]);
  const std::int64_t entries = memory::live_entries();
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kModels; ++i) threads.emplace_back([&, i] { together[i] = trained(i); });
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t i = 0; i < kModels; ++i) EXPECT_TRUE(alone[i] == together[i]) << "model " << i;
  EXPECT_EQ(memory::live_entries(), entries);
}

TEST(SideBySide, AModelMayBeSharedForInference) {
  manual_seed(1);
  nn::TransformerBlock block(16, 2, {.dropout = 0.1});
  block.eval();
  const Tensor x = randn({2, 5, 16});
  const std::string expected = bytes_of(block(x, {.is_causal = true}).detach());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const NoGradGuard no_grad;
      for (int k = 0; k < 5; ++k) EXPECT_TRUE(bytes_of(block(x, {.is_causal = true})) == expected);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tapegrad
