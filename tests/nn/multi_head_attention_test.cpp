#include <gtest/gtest.h>

#include <cmath>

#include <tapegrad/tapegrad.hpp>

#include <autograd/expectations.hpp>
#include <reference/attention_loops.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
using tapegrad::expectations::expect_throws;

TEST(MultiHeadAttentionTest, Configuration) {
  nn::MultiHeadAttention mha(64, 8);
  EXPECT_EQ(mha.embed_dim(), 64);
  EXPECT_EQ(mha.num_heads(), 8);
  EXPECT_EQ(mha.head_dim(), 8);
  EXPECT_EQ(mha.num_kv_heads(), 8);
  EXPECT_EQ(nn::MultiHeadAttention(512, 8).head_dim(), 64);
}

TEST(MultiHeadAttentionTest, FourProjectionsWithBias) {
  const nn::MultiHeadAttention mha(512, 8);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : mha.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias",
                                             "v_proj.weight", "v_proj.bias", "out_proj.weight", "out_proj.bias"}));
  EXPECT_EQ(mha.parameters().size(), 8u);
  EXPECT_EQ(nn::MultiHeadAttention(64, 8, {.bias = false}).parameters().size(), 4u);
}

TEST(MultiHeadAttentionTest, HeadsDoNotChangeTheNumberOfParameters) {
  for (const int heads : {1, 2, 4, 8})
    EXPECT_EQ(nn::MultiHeadAttention(64, heads).num_parameters(), 4 * (64 * 64 + 64));
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

namespace {

struct Sizes {
  std::int64_t width, heads, batch, length;
};

void expect_shapes_kept(const Sizes& sizes) {
  const auto [width, heads, batch, length] = sizes;
  const nn::MultiHeadAttention mha(width, heads);
  const tg::Tensor x = tg::randn({batch, length, width});
  EXPECT_EQ(mha(x).shape(), x.shape());
  EXPECT_EQ(mha.attention_weights(x).shape(), (tg::Shape{batch, heads, length, length}));
  EXPECT_EQ(mha.attention_weights(x, {.average_weights = true}).shape(), (tg::Shape{batch, length, length}));
  mha(x).sum().backward();
  EXPECT_EQ(mha.q_proj().weight().grad().shape(), (tg::Shape{width, width}));
}

}  // namespace

TEST(MultiHeadAttentionTest, KeepsTheShape) { expect_shapes_kept({64, 8, 2, 6}); }

TEST(MultiHeadAttentionTest, AcceptsABatchMask) {
  const nn::MultiHeadAttention mha(64, 8);
  const tg::Tensor x = tg::randn({2, 6, 64});
  EXPECT_EQ(mha(x, tg::tril(tg::ones({2, 6, 6}))).shape(), x.shape());
}

class MultiHeadAttentionSizes : public testing::TestWithParam<Sizes> {};
TEST_P(MultiHeadAttentionSizes, OtherConfigurations) { expect_shapes_kept(GetParam()); }
INSTANTIATE_TEST_SUITE_P(MultiHeadAttentionTest, MultiHeadAttentionSizes,
                         testing::Values(Sizes{32, 4, 1, 5}, Sizes{64, 8, 2, 10}, Sizes{8, 2, 2, 1}, Sizes{6, 1, 3, 2},
                                         Sizes{6, 6, 3, 2}, Sizes{8, 2, 0, 4}, Sizes{8, 2, 2, 0}));

TEST(MultiHeadAttentionTest, QueryHeadsShareKeyHeadsWithinTheWindow) {
  nn::MultiHeadAttention mha(12, 4, {.num_kv_heads = 2, .qk_norm = true, .window = 2});
  EXPECT_EQ(mha.num_kv_heads(), 2);
  EXPECT_EQ(mha.k_proj().weight().shape(), (tg::Shape{6, 12}));
  EXPECT_EQ(mha.parameters().size(), 10u);
  EXPECT_EQ(mha.named_parameters()[8].name, "q_norm.weight");
  mha.to(tg::float64);
  const tg::NoGradGuard no_grad;
  const tg::Tensor x = tg::randn({2, 7, 12}, tg::float64);
  const auto heads = [](const tg::Tensor& t, std::int64_t count) {
    return t.reshape({2, 7, count, 3}).permute({0, 2, 1, 3});
  };
  const tg::Tensor q = tg::rms_norm(heads(mha.q_proj()(x), 4), {}), k = tg::rms_norm(heads(mha.k_proj()(x), 2), {});
  const auto expected = attention_loops::attend(q, k, heads(mha.v_proj()(x), 2), {.left = 2, .right = 2, .group = 2});
  const tg::Tensor merged = tg::from_vector(expected.output, {2, 4, 7, 3}, tg::float64).permute({0, 2, 1, 3});
  EXPECT_TRUE(tg::allclose(mha(x), mha.out_proj()(merged.reshape({2, 7, 12})), 0, 1e-12));
  const tg::Tensor weights = tg::from_vector(expected.weights, {2, 4, 7, 7}, tg::float64);
  EXPECT_TRUE(tg::allclose(mha.attention_weights(x), weights, 0, 1e-12));
  EXPECT_TRUE(tg::allclose(mha.attention_weights(x, {.average_weights = true}), weights.mean(1), 0, 1e-12));
}

TEST(MultiHeadAttentionTest, GradientsOfEveryOptionAreRight) {
  tg::manual_seed(8);
  nn::MultiHeadAttention mha(8, 4, {.num_kv_heads = 2, .rotary = true, .qk_norm = true, .window = 1});
  mha.to(tg::float64);
  const tg::Tensor x = tg::randn({2, 4, 8}, tg::float64);
  tg::autograd::NamedTensors parameters;
  for (const auto& [name, tensor] : mha.named_parameters()) parameters.push_back({name, tensor});
  const auto report = tg::autograd::gradcheck(
      [&] {
        return mha(x, {.key_lengths = tg::tensor({3, 4}), .is_causal = true});
      },
      parameters);
  EXPECT_TRUE(report) << report.to_string();
}

TEST(MultiHeadAttentionTest, RotaryTurnsQueriesAndKeysByTheirPositions) {
  nn::MultiHeadAttention turned(8, 2, {.rotary = true, .rotary_base = 100.0}), plain(8, 2);
  plain.load_state_dict(turned.state_dict());
  const tg::NoGradGuard no_grad;
  const tg::Tensor x = tg::randn({1, 5, 8});
  EXPECT_FALSE(tg::allclose(turned(x), plain(x), 1e-3, 1e-3));
  const nn::RotaryEmbedding rotary(4, 100.0);
  const auto heads = [&](const tg::Tensor& t) { return rotary.rotate(t.reshape({1, 5, 2, 4}).permute({0, 2, 1, 3})); };
  const tg::Tensor q = heads(turned.q_proj()(x)), k = heads(turned.k_proj()(x));
  EXPECT_TRUE(tg::allclose(turned.attention_weights(x), nn::scaled_dot_product_attention(q, k, k).weights, 1e-5, 1e-6));
  const tg::Tensor last = x.slice(1, 3, 5);  // the last queries stand where they stood
  EXPECT_TRUE(tg::allclose(turned(last, x, x), turned(x).slice(1, 3, 5), 1e-5, 1e-6));
  const tg::Tensor more_queries = turned(x, last, last);
  EXPECT_TRUE(tg::allclose(more_queries.slice(1, 3, 5), turned(last), 1e-5, 1e-6));
  expect_throws<tg::ValueError>([] { nn::MultiHeadAttention(6, 2, {.rotary = true}); }, {"even", "3"});
}

TEST(MultiHeadAttentionTest, MasksOfEveryKindMeet) {
  nn::MultiHeadAttention mha(8, 2);
  const tg::Tensor x = tg::randn({2, 5, 8}), lengths = tg::tensor({3, 5});
  const tg::Tensor real = tg::lt(tg::arange(5), lengths.unsqueeze(1));
  const tg::Tensor allowed = tg::logical_and(nn::create_causal_mask(5), real.unsqueeze(1));  // [2, 5, 5]
  const tg::Tensor expected = mha(x, allowed);
  const nn::AttendOptions alike[] = {{.mask = allowed.unsqueeze(1)},
                                     {.mask = allowed.unsqueeze(1).expand({2, 2, 5, 5})},
                                     {.mask = nn::causal(5), .key_padding_mask = real},
                                     {.mask = nn::create_causal_mask(5), .key_lengths = lengths},
                                     {.key_padding_mask = real.to(tg::float32), .is_causal = true},
                                     {.key_lengths = lengths, .is_causal = true},
                                     {.mask = nn::causal(5) & !nn::padding(lengths)}};
  for (const nn::AttendOptions& options : alike) EXPECT_TRUE(tg::allclose(mha(x, options), expected, 1e-5, 1e-6));
}

TEST(MultiHeadAttentionTest, HeadsAreViews) {
  nn::MultiHeadAttention mha(256, 8);
  const tg::Tensor x = tg::randn({2, 512, 256});
  const tg::NoGradGuard no_grad;
  const std::int64_t before = tg::memory::current(), all = 4 * x.numel();  // bytes
  tg::memory::reset_peak();
  mha(x);
  EXPECT_LT(tg::memory::peak() - before, 6 * all) << "queries, keys, values, heads and output are five";
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
    if (name == "k_proj.bias") {  // a shift of all scores of a row, which softmax can't see
      EXPECT_LT(tg::norm(parameter.grad()).item(), 1e-6);
    } else {
      EXPECT_GT(tg::norm(parameter.grad()).item(), 1e-6) << name;
      EXPECT_GT(tg::norm(moved).item(), 1e-7) << name;
    }
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
  const auto made_with = [](std::int64_t width, std::int64_t heads, const nn::MultiHeadAttentionOptions& options = {}) {
    return [=] { nn::MultiHeadAttention(width, heads, options); };
  };
  expect_throws<tg::ValueError>(made_with(64, 7),
                                {"embed_dim = 64", "num_heads = 7", "divisible", "8 heads of width 8"});
  expect_throws<tg::ValueError>(made_with(64, 0), {"positive", "64", "0"});
  expect_throws<tg::ValueError>(made_with(-4, 2), {"positive", "-4"});
  expect_throws<tg::ValueError>(made_with(64, 8, {.dropout = 1.5}), {"dropout", "1.5"});
  expect_throws<tg::ValueError>(made_with(64, 8, {.num_kv_heads = 3}), {"num_heads = 8", "num_kv_heads = 3"});
  expect_throws<tg::ValueError>(made_with(64, 8, {.num_kv_heads = 0}), {"num_kv_heads = 0"});
  expect_throws<tg::ShapeError>([&] { mha(tg::ones({6, 64})); }, {"three dimensions", "[6, 64]"});
  expect_throws<tg::ShapeError>([&] { mha(tg::ones({2, 6, 32})); }, {"MultiHeadAttention", "64", "[2, 6, 32]"});
  expect_throws<tg::DtypeError>([&] { mha(tg::ones({2, 6, 64}, tg::int64)); }, {"q_proj", "int64"});
  const tg::Tensor x = tg::ones({2, 6, 64});
  expect_throws<tg::ShapeError>([&] { mha(x, {.key_padding_mask = tg::ones({6})}); }, {"key_padding_mask", "[6]"});
  expect_throws<tg::ShapeError>(
      [&] {
        mha(x, {.key_padding_mask = tg::ones({2, 5})});
      },
      {"[2, 1, 1, 5]", "[2, 8, 6, 6]"});
  expect_throws<tg::ShapeError>(
      [&] {
        mha(x, {.key_lengths = tg::ones({2, 1}, tg::int64)});
      },
      {"key_lengths", "[2, 1]"});
  expect_throws<tg::Error>([&] { mha(x, {.key_lengths = tg::tensor({7, 2})}); }, {"7", "6"});
  expect_throws<tg::ShapeError>([&] { mha(x, tg::ones({3, 6, 6})); }, {"mask", "[2, 8, 6, 6]"});
  expect_throws<tg::ShapeError>([&] { mha(x, tg::ones({1, 2, 8, 6, 6})); }, {"mask", "[1, 2, 8, 6, 6]"});
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
  for (const auto& [name, tensor] : block.named_parameters()) parameters.push_back({name, tensor});
  const auto report = tg::autograd::gradcheck([&] { return block(x, {.is_causal = true}); }, parameters);
  EXPECT_TRUE(report) << report.to_string();
}
