// The toy language model must not see the future, nor other texts of its batch.
#include <gtest/gtest.h>

#include "model.hpp"

namespace {

using namespace toy_lm;

TEST(ToyModel, IsCausalAndKeepsTextsApart) {
  tg::manual_seed(6);
  const Gpt model({.vocabulary = 11});
  const tg::Tensor ids = tg::randint(0, 11, {3, 12});
  const tg::nn::LeakReport in_time = tg::nn::check_causal(model, ids);
  EXPECT_TRUE(in_time) << in_time.to_string();
  const tg::nn::LeakReport in_batch = tg::nn::check_batch_independence(model, ids);
  EXPECT_TRUE(in_batch) << in_batch.to_string();
}

}  // namespace
