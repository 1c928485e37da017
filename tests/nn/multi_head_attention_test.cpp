#include <gtest/gtest.h>

#include <cmath>

#include <tapegrad/tapegrad.hpp>

#include <reference/attention_loops.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

TEST(MultiHeadAttentionTest, Configuration) {
  nn::MultiHeadAttention mha(64, 8);
  EXPECT_EQ(mha.embed_dim(), 64);
  EXPECT_EQ(mha.num_heads(), 8);
  EXPECT_EQ(mha.head_dim(), 8);
  EXPECT_EQ(mha.parameters().size(), 8u);
  EXPECT_EQ(mha.named_parameters()[0].name, "q_proj.weight");
  EXPECT_EQ(mha.named_parameters()[7].name, "out_proj.bias");
  for (const int heads : {1, 2, 4, 8})
    EXPECT_EQ(nn::MultiHeadAttention(64, heads).num_parameters(), 4 * (64 * 64 + 64));
  EXPECT_EQ(nn::MultiHeadAttention(64, 8, {.bias = false}).parameters().size(), 4u);
}

TEST(MultiHeadAttentionTest, StartsAsThePackedMatrixDoes) {
  nn::MultiHeadAttention mha(64, 8);
  EXPECT_LE(mha.q_proj().weight().abs().max().item(), 0.15310);
  EXPECT_GT(mha.q_proj().weight().abs().max().item(), 0.150);
  EXPECT_LE(mha.out_proj().weight().abs().max().item(), 0.125);
  EXPECT_EQ(mha.out_proj().bias().abs().max().item(), 0.0);
}

TEST(MultiHeadAttentionTest, IsAttentionOfEachHead) {
  nn::MultiHeadAttention mha(6, 3);
  mha.to(tg::float64);
  const tg::Tensor x = tg::randn({2, 5, 6}, tg::float64);
  const auto heads = [](const tg::Tensor& t) { return t.reshape({2, 5, 3, 2}).permute({0, 2, 1, 3}); };
  const auto expected = attention_loops::attend(heads(mha.q_proj()(x)), heads(mha.k_proj()(x)), heads(mha.v_proj()(x)),
                                                {.is_causal = true});
  const tg::Tensor merged = tg::from_vector(expected.output, {2, 3, 5, 2}, tg::float64).permute({0, 2, 1, 3});
  const tg::Tensor wanted = mha.out_proj()(merged.reshape({2, 5, 6}));
  EXPECT_TRUE(tg::allclose(mha(x, {.is_causal = true}), wanted, 0, 1e-12));
  EXPECT_TRUE(tg::allclose(mha(x, nn::create_causal_mask(5)), wanted, 0, 1e-12));
  EXPECT_TRUE(tg::allclose(mha(x, nn::create_causal_mask(5).expand({2, 5, 5})), wanted, 0, 1e-12));
  EXPECT_TRUE(tg::allclose(mha(x, x, x, nn::create_causal_mask(5)), wanted, 0, 1e-12));
  EXPECT_TRUE(tg::allclose(mha.attention_weights(x, {.is_causal = true}),
                           tg::from_vector(expected.weights, {2, 3, 5, 5}, tg::float64), 0, 1e-12));
}

TEST(MultiHeadAttentionTest, PaddingHidesKeysOnly) {
  nn::MultiHeadAttention mha(8, 2);
  const tg::Tensor x = tg::randn({2, 4, 8});
  const tg::Tensor real = tg::tensor({{1, 1, 0, 0}, {1, 1, 0, 0}});
  const tg::Tensor y = mha(x, {.key_padding_mask = real});
  const tg::Tensor shorter = x.slice(1, 0, 2);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_TRUE(tg::allclose(y, mha(x, shorter, shorter), 1e-5, 1e-6));
  const tg::Tensor only_first =
      mha(x, {.mask = nn::create_causal_mask(4), .key_padding_mask = tg::tensor({{1, 0, 0, 0}})});
  EXPECT_TRUE(
      tg::allclose(only_first.select(1, 3), mha(x, x.slice(1, 0, 1), x.slice(1, 0, 1)).select(1, 3), 1e-5, 1e-6));
}

TEST(MultiHeadAttentionTest, CrossAttentionTakesOtherWidths) {
  nn::MultiHeadAttention mha(8, 2, {.kdim = 5, .vdim = 3});
  EXPECT_EQ(mha(tg::ones({2, 4, 8}), tg::ones({2, 7, 5}), tg::ones({2, 7, 3})).shape(), (tg::Shape{2, 4, 8}));
  EXPECT_EQ(mha.attention_weights(tg::ones({2, 4, 8}), tg::ones({2, 7, 5}), {}).shape(), (tg::Shape{2, 2, 4, 7}));
}

TEST(MultiHeadAttentionTest, EveryParameterLearns) {
  tg::manual_seed(3);
  nn::MultiHeadAttention mha(16, 4);
  mha(tg::randn({2, 6, 16})).pow(2).mean().backward();
  tg::Tensors before;
  for (const tg::Tensor& parameter : mha.parameters()) before.push_back(parameter.clone());
  tg::optim::SGD(mha.parameters(), {.lr = 0.1}).step();
  std::size_t i = 0;
  for (const auto& [name, parameter] : mha.named_parameters()) {
    const tg::Tensor moved = parameter - before[i++];
    if (name == "k_proj.bias")  // a shift of all scores of a row, which softmax can't see
      EXPECT_LT(tg::norm(parameter.grad()).item(), 1e-6);
    else
      EXPECT_GT(tg::norm(moved).item(), 1e-7) << name;
  }
}

TEST(MultiHeadAttentionTest, PermutedTokensGivePermutedOutputs) {
  nn::MultiHeadAttention mha(8, 2);
  const tg::Tensor x = tg::randn({1, 6, 8}), order = tg::tensor({3, 1, 5, 0, 2, 4});
  EXPECT_TRUE(tg::allclose(mha(tg::index_select(x, 1, order)), tg::index_select(mha(x), 1, order), 1e-4, 1e-6));
}

TEST(MultiHeadAttentionTest, DropoutActsInTrainingAlone) {
  nn::MultiHeadAttention mha(8, 2, {.dropout = 0.5});
  const tg::Tensor x = tg::randn({1, 6, 8});
  EXPECT_FALSE(tg::equal(mha(x), mha(x)));
  EXPECT_TRUE(tg::allclose(mha.attention_weights(x).sum(-1), tg::ones({1, 2, 6})));
  mha.eval();
  EXPECT_TRUE(tg::equal(mha(x), mha(x)));
}

TEST(MultiHeadAttentionTest, Mistakes) {
  nn::MultiHeadAttention mha(64, 8);
  EXPECT_THROW(nn::MultiHeadAttention(64, 7), tg::ValueError);
  EXPECT_THROW(nn::MultiHeadAttention(64, 0), tg::ValueError);
  EXPECT_THROW(nn::MultiHeadAttention(-4, 2), tg::ValueError);
  EXPECT_THROW(nn::MultiHeadAttention(64, 8, {.dropout = 1.5}), tg::ValueError);
  EXPECT_THROW(mha(tg::ones({6, 64})), tg::ShapeError);
  EXPECT_THROW(mha(tg::ones({2, 6, 32})), tg::ShapeError);
  EXPECT_THROW(mha(tg::ones({2, 6, 64}), {.key_padding_mask = tg::ones({6})}), tg::ShapeError);
}

TEST(TransformerBlockTest, IsPreNormWithResiduals) {
  nn::TransformerBlock block(8, 2, {.mlp_ratio = 2});
  const tg::Tensor x = tg::randn({2, 5, 8});
  const tg::Tensor y = x + block.attention()(block.norm1()(x), {.is_causal = true});
  const tg::Tensor expected = y + block.linear2()(nn::gelu(block.linear1()(block.norm2()(y))));
  EXPECT_TRUE(tg::allclose(block(x, {.is_causal = true}), expected, 1e-5, 1e-6));
  EXPECT_TRUE(tg::allclose(block(x, nn::create_causal_mask(5)), expected, 1e-5, 1e-6));
  EXPECT_EQ(block.linear1().out_features(), 16);
  EXPECT_EQ(nn::TransformerBlock(8, 2, {.bias = false}).num_parameters(), 8 + 4 * 64 + 8 + 2 * 8 * 32);
}

TEST(TransformerBlockTest, TheFutureDoesNotReachThePast) {
  nn::TransformerBlock block(8, 2);
  const tg::Tensor x = tg::randn({1, 6, 8});
  const tg::Tensor changed = tg::cat({x.slice(1, 0, 4), tg::randn({1, 2, 8})}, 1);
  EXPECT_TRUE(
      tg::allclose(block(x, {.is_causal = true}).slice(1, 0, 4), block(changed, {.is_causal = true}).slice(1, 0, 4)));
}

TEST(TransformerBlockTest, GradientsOfItsParametersAreRight) {
  tg::manual_seed(8);
  nn::TransformerBlock block(4, 2);
  block.to(tg::float64);
  const tg::Tensor x = tg::randn({1, 3, 4}, tg::float64);
  tg::autograd::NamedTensors parameters;
  for (const auto& [name, tensor] : block.named_parameters()) parameters.emplace_back(name, tensor);
  const auto report = tg::autograd::gradcheck([&] { return block(x, {.is_causal = true}); }, parameters);
  EXPECT_TRUE(report) << report.to_string();
}
