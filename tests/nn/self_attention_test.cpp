// Attention of a sequence to itself, without parameters.
#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

TEST(SelfAttentionTest, HasNoParametersAndReturnsBoth) {
  testing::internal::CaptureStdout();
  const nn::SelfAttention layer(8);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << "layers never print";
  EXPECT_EQ(fmt::format("{}", layer), "SelfAttention(d_model=8): 0 parameters");
  EXPECT_TRUE(layer.parameters().empty());

  const tg::Tensor x = tg::randn({2, 5, 8});
  const auto [output, weights] = layer(x, nn::create_causal_mask(5));
  const auto expected = nn::scaled_dot_product_attention(x, x, x, {.is_causal = true});
  EXPECT_TRUE(tg::equal(output, expected.output));
  EXPECT_TRUE(tg::equal(weights, expected.weights));
  EXPECT_TRUE(tg::equal(layer.forward(x, {.is_causal = true}).output, output)) << "called or by name";
  EXPECT_EQ(layer(tg::randn({5, 8})).weights.shape(), (tg::Shape{5, 5})) << "a sequence without a batch";
}

TEST(SelfAttentionTest, Mistakes) {
  EXPECT_THROW(nn::SelfAttention(0), tg::ValueError);
  EXPECT_THROW(nn::SelfAttention(8)(tg::randn({5, 7})), tg::ShapeError);
}
