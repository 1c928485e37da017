// The differences from PyTorch that docs/from_pytorch.md lists, and that no other test holds.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <regex>
#include <sstream>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(TAPEGRAD_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(FromPyTorch, ThePageNamesTestsThatExist) {
  const std::string page = text_of("docs/from_pytorch.md");
  const std::regex name("([a-z_/]+_test):\\s+(\\w+)\\.(\\w+)");
  int found = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), name), end; at != end; ++at, ++found)
    EXPECT_NE(text_of("tests/" + at->str(1) + ".cpp").find("(" + at->str(2) + ", " + at->str(3) + ")"),
              std::string::npos)
        << at->str();
  EXPECT_GE(found, 30);
  // Every row of the tables of differences has one.
  const std::regex row("\\| [^|]+ \\| ([^|]+) \\|");
  std::istringstream lines(page.substr(page.find("## Attention")));
  for (std::string line; std::getline(lines, line);) {
    std::smatch cells;
    if (std::regex_match(line, cells, row) && cells.str(1) != "test" && cells.str(1) != "---") {
      EXPECT_TRUE(std::regex_search(cells.str(1), name)) << line;
    }
  }
}

TEST(FromPyTorch, NonzeroAllowsAtEveryEntryPoint) {
  const tg::Tensor v = tg::randn({2, 3, 4}), first = tg::tensor({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}});
  const tg::Tensor only_first = v.slice(1, 0, 1).expand({2, 3, 4});
  for (const tg::Dtype dtype : {tg::int64, tg::boolean, tg::float32})
    EXPECT_TRUE(tg::equal(nn::scaled_dot_product_attention(v, v, v, first.to(dtype)).output, only_first));
  EXPECT_TRUE(
      tg::equal(nn::scaled_dot_product_attention(v, v, v, {.mask = first, .need_weights = false}).output, only_first));
  const tg::Tensor real = first.slice(0, 0, 2);
  nn::MultiHeadAttention attention(4, 2);
  nn::TransformerEncoder encoder(4, 2, 1, {.dim_feedforward = 6, .dropout = 0.0});
  nn::TransformerDecoderLayer decoder(4, 2, {.dim_feedforward = 6, .dropout = 0.0});
  const tg::Tensor seen = v.slice(1, 0, 1), self = attention(v, seen, seen);
  EXPECT_TRUE(tg::allclose(attention(v, {.mask = first}), self, 1e-5, 1e-6));
  EXPECT_TRUE(tg::allclose(attention(v, {.key_padding_mask = real}), self, 1e-5, 1e-6));
  EXPECT_TRUE(tg::allclose(encoder(v, {.mask = first}), encoder(v, {.key_padding_mask = real}), 1e-5, 1e-6));
  EXPECT_FALSE(tg::allclose(encoder(v, {.mask = first}), encoder(v), 1e-3, 1e-3));
  EXPECT_TRUE(tg::allclose(decoder(v, v, {.memory = {.mask = first}}), decoder(v, seen), 1e-5, 1e-6));
  EXPECT_TRUE(tg::allclose(decoder(v, v, {.memory = {.key_padding_mask = real}}), decoder(v, seen), 1e-5, 1e-6));
}

TEST(FromPyTorch, WeightsAreThoseOfEachHead) {
  nn::MultiHeadAttention attention(8, 2);
  const tg::Tensor x = tg::randn({3, 4, 8}), weights = attention.attention_weights(x);
  EXPECT_EQ(weights.shape(), (tg::Shape{3, 2, 4, 4}));
  EXPECT_FALSE(tg::allclose(weights.select(1, 0), weights.select(1, 1)));
  EXPECT_TRUE(tg::allclose(attention.attention_weights(x, {.average_weights = true}), weights.mean(1)));
}

TEST(FromPyTorch, AMaskForEachItemNeedsNoHeads) {
  nn::MultiHeadAttention attention(8, 2);
  const tg::Tensor x = tg::randn({2, 3, 8}), mask = nn::create_padding_mask({3, 1}, 3);
  const tg::Tensor y = attention(x, mask);
  EXPECT_TRUE(tg::allclose(y.slice(0, 0, 1), attention(x.slice(0, 0, 1)), 1e-5, 1e-6));
  EXPECT_TRUE(tg::allclose(y, attention(x, mask.unsqueeze(1).expand({2, 2, 3, 3})), 1e-5, 1e-6));
}

template <class Options>
concept TakesMaxNorm = requires {
  Options{.max_norm = 1.0};
};
template <class Options>
concept TakesSparse = requires {
  Options{.sparse = true};
};
template <class Options>
concept TakesPaddingIdx = requires {
  Options{.padding_idx = 0};
};
template <class Options>
concept TakesBatchFirst = requires {
  Options{.batch_first = false};
};

TEST(FromPyTorch, OptionsThatAreNotThereDoNotCompile) {
  EXPECT_TRUE(TakesPaddingIdx<nn::EmbeddingOptions>);
  EXPECT_FALSE(TakesMaxNorm<nn::EmbeddingOptions> || TakesSparse<nn::EmbeddingOptions>);
  EXPECT_FALSE(TakesBatchFirst<nn::MultiHeadAttentionOptions> || TakesBatchFirst<nn::TransformerLayerOptions>);
}

TEST(FromPyTorch, AGroupTakesOnlySettingsThatTheOptimizerHas) {
  const tg::Tensors parameters{tg::ones({2}).requires_grad_()};
  EXPECT_THROW(tg::optim::SGD({{.parameters = parameters, .betas = {{0.9, 0.99}}}}), tg::ValueError);
  EXPECT_EQ(tg::optim::SGD({{.parameters = parameters, .momentum = 0.5}}).groups()[0].momentum, 0.5);
}

TEST(FromPyTorch, ASchedulesRateDependsOnTheStepAlone) {
  tg::optim::SGD optimizer({tg::ones({2}).requires_grad_()}, {.lr = 1.0, .momentum = 0.5});
  tg::optim::OneCycleLR schedule(optimizer, {.total_steps = 10});
  optimizer.set_lr(7.0);
  schedule.step();
  EXPECT_EQ(optimizer.lr(), schedule.lr_at(1));
  EXPECT_LE(optimizer.lr(), 1.0);
  EXPECT_EQ(optimizer.groups()[0].momentum, 0.5);
}

TEST(FromPyTorch, FullIsFloat32) { EXPECT_EQ(tg::full({2}, 1).dtype(), tg::float32); }

TEST(FromPyTorch, MaxAlongAnAxisGivesValuesAlone) {
  const tg::Tensor x = tg::tensor({{1, 3, 2}, {6, 5, 4}});
  EXPECT_TRUE(tg::equal(x.max(1), tg::tensor({3, 6})));
  EXPECT_TRUE(tg::equal(x.argmax(1), tg::tensor({1, 0})));
}

TEST(FromPyTorch, AnIntegerBesideAnIndexTensorCountsAsOne) {
  EXPECT_EQ(tg::index(tg::zeros({5, 3, 4}), {0, tg::Slice{}, tg::tensor({0, 1})}).shape(), (tg::Shape{2, 3}));
}

TEST(FromPyTorch, SoftplusAloneHasNoThreshold) {
  const tg::Tensor x = tg::tensor({25.0}, tg::float64);
  EXPECT_EQ(tg::softplus(x).item(), 25 + std::log1p(std::exp(-25.0)));
  EXPECT_EQ(tg::softplus(x, 1.0).item(), 25);
}

TEST(FromPyTorch, NoGradientThroughAnInfiniteSlopeIsZero) {
  const tg::Tensor x = tg::tensor({0.0, 4.0}).requires_grad_();
  (tg::sqrt(x) * tg::tensor({0.0, 1.0})).sum().backward();
  EXPECT_TRUE(tg::equal(x.grad(), tg::tensor({0.0, 0.25})));
}

}  // namespace
