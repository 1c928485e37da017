// The first losses of the toy language model, written down: tuning a kernel must not change what is learnt. Other
// processors and BLAS kernels round differently, hence the tolerance.
#include <gtest/gtest.h>

#include "batches.hpp"
#include "corpus.hpp"
#include "model.hpp"

namespace {

using namespace toy_lm;

TEST(Golden, FirstTenLosses) {
  const double expected[] = {3.92020, 3.42000, 3.22648, 3.20674, 3.14467, 2.96530, 2.92662, 2.82671, 2.74680, 2.69055};
  tg::manual_seed(1337);
  const Corpus corpus = load_corpus({}, 1337, 64);
  const Gpt model({.vocabulary = corpus.vocabulary.size()});
  tg::optim::AdamW optimizer(model.parameters(), {.lr = 1e-3, .betas = {0.9, 0.99}, .weight_decay = 0.1});
  for (double loss_then : expected) {
    const Batch batch = random_batch(corpus.split.training, 12, 64);
    const tg::Tensor loss = model.loss(batch.ids, batch.targets);
    EXPECT_NEAR(loss.item(), loss_then, 1e-4);
    optimizer.zero_grad();
    loss.backward();
    tg::optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
  }
}

}  // namespace
