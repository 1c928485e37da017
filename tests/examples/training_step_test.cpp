// What a training step promises whatever is tuned: the same bits on any number of threads, and no memory from the
// system once it is steady.
#include <gtest/gtest.h>

#include "autograd/expectations.hpp"
#include "batches.hpp"
#include "corpus.hpp"
#include "model.hpp"

namespace {

using namespace toy_lm;

/// The toy language model at its own size, with dropout.
class Training {
 public:
  Training() : corpus_(load_corpus({}, 1337, kContext)), model_(make_model(corpus_.vocabulary.size())) {}

  tg::Tensor step() {
    const Batch batch = random_batch(corpus_.split.training, 12, kContext);
    const tg::Tensor loss = model_.loss(batch.ids, batch.targets);
    optimizer_.zero_grad();
    loss.backward();
    tg::optim::clip_grad_norm(parameters_, 1.0);
    optimizer_.step();
    return loss.detach();
  }
  const tg::Tensors& parameters() const { return parameters_; }

 private:
  static constexpr std::int64_t kContext = 64;
  static Gpt make_model(std::int64_t vocabulary) {
    tg::manual_seed(1337);
    return Gpt({.vocabulary = vocabulary, .context = kContext, .dropout = 0.1});
  }

  Corpus corpus_;
  Gpt model_;
  tg::Tensors parameters_ = model_.parameters();
  tg::optim::AdamW optimizer_{parameters_, {.lr = 1e-3, .betas = {0.9, 0.99}, .weight_decay = 0.1}};
};

TEST(TrainingStep, LossesGradientsAndParametersHaveTheSameBitsOnAnyNumberOfThreads) {
  tg::expectations::expect_same_on_any_threads([] {
    Training training;
    tg::Tensors results;
    for (int i = 0; i < 4; ++i) results.push_back(training.step());
    for (const tg::Tensor& parameter : training.parameters()) {
      results.push_back(parameter.detach());
      results.push_back(parameter.grad());
    }
    return results;
  });
}

TEST(TrainingStep, AsksTheSystemForNoMemoryOnceItIsSteady) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "under the sanitizer no block is reused";
#endif
  const int before = tg::num_threads();
  for (const int threads : {1, 2, 3}) {
    tg::set_num_threads(threads);
    Training training;
    const auto asked_in_ten_steps = [&] {
      const std::int64_t asked = tg::memory::system_allocations();
      for (int i = 0; i < 10; ++i) training.step();
      return tg::memory::system_allocations() - asked;
    };
    // On a busy machine a thread may come to its first task, and so to its first memory, late: then it is not steady
    // yet.
    const int tries = threads == 1 ? 1 : 10;
    for (int i = 0; i < 2; ++i) training.step();  // from the second on, old gradients are there beside the activations
    std::int64_t asked = 1;
    for (int i = 0; i < tries && asked > 0; ++i) asked = asked_in_ten_steps();
    EXPECT_EQ(asked, 0) << "in ten steps on " << threads << " threads";
    const std::int64_t entries = tg::memory::live_entries();
    training.step();
    EXPECT_EQ(tg::memory::live_entries(), entries) << threads << " threads";
  }
  tg::set_num_threads(before);
}

}  // namespace
