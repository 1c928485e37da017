// Positional encodings: by their formulas, by their papers' code in PyTorch, and by what they are for.
#include <autograd/expectations.hpp>
#include <reference/cases.hpp>

using namespace tapegrad;
using expectations::expect_throws;

namespace {

const reference::Json& references() {
  static const reference::Json json = reference::read("positions.json");
  return json;
}

}  // namespace

TEST(PositionsTest, Sinusoidal) {
  EXPECT_LT(
      reference::distance(reference::tensor_of(references()["sinusoidal"]), nn::sinusoidal_positions(7, 6, 0, float64)),
      1e-14);
  const Tensor table = nn::sinusoidal_positions(3, 4);
  EXPECT_EQ(table.dtype(), float32);
  const double rate = std::pow(10000.0, -0.5);
  expectations::expect_near(table.select(0, 2), {std::sin(2), std::cos(2), std::sin(2 * rate), std::cos(2 * rate)},
                            1e-7);
  EXPECT_TRUE(equal(nn::sinusoidal_positions(3, 4, 5), nn::sinusoidal_positions(8, 4).slice(0, 5, 8)));
  EXPECT_EQ(nn::sinusoidal_positions(0, 4).shape(), (Shape{0, 4}));

  nn::SinusoidalPositions layer(4);
  EXPECT_EQ(layer.num_parameters(), 0);
  EXPECT_EQ(fmt::format("{}", layer).find("SinusoidalPositions(width=4)"), 0u);
  const Tensor x = randn({2, 3, 4}, float64);
  EXPECT_TRUE(equal(layer(x, 300), x + nn::sinusoidal_positions(3, 4, 300, float64)));
  EXPECT_TRUE(equal(layer(x), x + nn::sinusoidal_positions(3, 4, 0, float64)));
  EXPECT_TRUE(equal(layer(x.to(float32), 2), x.to(float32) + nn::sinusoidal_positions(3, 4, 2)));
}

TEST(PositionsTest, Learned) {
  nn::LearnedPositions layer(6, 4);
  EXPECT_EQ(layer.named_parameters()[0].name, "weight");
  EXPECT_EQ(layer.max_length(), 6);
  const Tensor x = randn({2, 3, 4});
  const Tensor y = layer(x, 2);
  EXPECT_TRUE(equal(y, x + layer.weight().detach().slice(0, 2, 5)));
  y.sum().backward();
  EXPECT_TRUE(equal(layer.weight().grad(), cat({zeros({2, 4}), full({3, 4}, 2), zeros({1, 4})})));
  EXPECT_TRUE(equal(layer(x), x + layer.weight().detach().slice(0, 0, 3)));
  expect_throws<ValueError>([&] { layer(x, 4); }, {"LearnedPositions", "max_length = 6", "3 from 4 on"});
  nn::LearnedPositions many(1000, 64);
  EXPECT_NEAR(many.weight().detach().pow(2).mean().sqrt().item(), 0.02, 1e-3);
}

TEST(PositionsTest, RotaryIsLlamas) {
  for (const auto& at : references()["rotary"]) {
    const Tensor x = reference::tensors_of(at["inputs"])[0].requires_grad_();
    const Tensor y = nn::RotaryEmbedding(6, at["base"].get<double>()).rotate(x, at["offset"].get<std::int64_t>());
    EXPECT_LT(reference::distance(reference::tensor_of(at["output"]), y), 1e-13);
    y.backward(reference::tensor_of(at["grad"]));
    EXPECT_LT(reference::distance(reference::tensors_of(at["grads"])[0], x.grad()), 1e-13);
  }
}

TEST(PositionsTest, RotaryScoresDependOnTheDistanceAlone) {
  manual_seed(1);
  const nn::RotaryEmbedding rotary(8);
  const Tensor q = randn({1, 8}, float64), k = randn({1, 8}, float64);
  const auto score = [&](std::int64_t i, std::int64_t j) {
    return (rotary.rotate(q, i) * rotary.rotate(k, j)).sum().item();
  };
  for (const std::int64_t shift : {1, 250, 1000, 100000}) {
    EXPECT_NEAR(score(5, 2), score(5 + shift, 2 + shift), 1e-9) << shift;
    EXPECT_GT(std::abs(score(5, 2) - score(5 + shift, 2)), 1e-3) << shift;
  }
  EXPECT_NEAR(norm(rotary.rotate(q, 77)).item(), norm(q).item(), 1e-13);
  EXPECT_TRUE(equal(rotary.rotate(q), q));
}

TEST(PositionsTest, RotaryOfPartsIsAPartOfRotary) {
  manual_seed(2);
  const nn::RotaryEmbedding rotary(6);
  const Tensor x = randn({2, 3, 700, 6});
  const Tensor whole = nn::RotaryEmbedding(6).rotate(x);
  for (const auto& [start, count] :
       {std::pair{0, 1}, {255, 1}, {256, 1}, {255, 1}, {510, 3}, {699, 1}, {3, 600}, {0, 700}}) {
    const Tensor part = rotary.rotate(x.slice(2, start, start + count), start);
    EXPECT_TRUE(equal(part, whole.slice(2, start, start + count))) << start;
  }
  const Tensor heads = x.permute({0, 2, 1, 3}).contiguous().permute({0, 2, 1, 3});
  EXPECT_TRUE(equal(rotary.rotate(heads), whole));
  EXPECT_EQ(rotary.rotate(ones({0, 6})).shape(), (Shape{0, 6}));
  const nn::RotaryEmbedding copy = rotary;
  EXPECT_TRUE(allclose(copy.rotate(x.to(float64)).to(float32), whole, 0, 1e-4));
}

TEST(PositionsTest, RotaryGradients) {
  manual_seed(3);
  const nn::RotaryEmbedding rotary(4);
  const auto rotate = [&](const Tensor& x) { return rotary.rotate(x, 3); };
  TAPEGRAD_GRADCHECK(rotate, randn({2, 3, 4}, float64));
  TAPEGRAD_GRADGRADCHECK(rotate, randn({2, 3, 4}, float64));
}

TEST(PositionsTest, AlibiSlopes) {
  for (std::int64_t heads = 1; heads <= 16; ++heads)
    expectations::expect_near(nn::alibi_slopes(heads, float64),
                              references()["slopes"][static_cast<std::size_t>(heads - 1)].get<std::vector<double>>(),
                              1e-14);
}

TEST(PositionsTest, AlibiBias) {
  EXPECT_TRUE(equal(nn::alibi_bias(2, 2, 3), stack({tensor({{-1.0, 0.0, -1.0}, {-2.0, -1.0, 0.0}}) / 16,
                                                    tensor({{-1.0, 0.0, -1.0}, {-2.0, -1.0, 0.0}}) / 256})));
  manual_seed(4);
  const Tensor q = randn({2, 3, 4, 8}, float64), k = randn({2, 3, 6, 8}, float64);
  const auto weights = [&](const Tensor& bias) {
    return nn::scaled_dot_product_attention(q, k, k, {.bias = bias, .is_causal = true}).weights;
  };
  const Tensor cheap = nn::alibi_causal_bias(3, 6, float64);
  EXPECT_EQ(cheap.shape(), (Shape{3, 1, 6}));
  EXPECT_TRUE(allclose(weights(nn::alibi_bias(3, 4, 6, float64)), weights(cheap), 0, 1e-14));
  EXPECT_EQ(nn::alibi_bias(2, 0, 3).shape(), (Shape{2, 0, 3}));
}

TEST(PositionsTest, Mistakes) {
  expect_throws<ValueError>([] { nn::sinusoidal_positions(4, 3); }, {"sinusoidal_positions", "even", "3"});
  expect_throws<DtypeError>([] { nn::sinusoidal_positions(4, 2, 0, int64); }, {"sinusoidal_positions", "int64"});
  expect_throws<ValueError>([] { nn::SinusoidalPositions(5); }, {"SinusoidalPositions", "even", "5"});
  expect_throws<ValueError>([] { nn::RotaryEmbedding(7); }, {"RotaryEmbedding", "even", "7"});
  expect_throws<ValueError>([] { nn::RotaryEmbedding(0); }, {"RotaryEmbedding", "positive", "0"});
  expect_throws<ValueError>([] { nn::RotaryEmbedding(4, -1.0); }, {"base", "-1"});
  const nn::RotaryEmbedding rotary(4);
  expect_throws<ShapeError>([&] { rotary.rotate(ones({2, 6})); }, {"RotaryEmbedding", "width = 4", "[2, 6]"});
  expect_throws<ShapeError>([&] { rotary.rotate(ones({4})); }, {"[..., length, width = 4]", "[4]"});
  expect_throws<DtypeError>([&] { rotary.rotate(ones({2, 4}, int64)); }, {"floating", "int64"});
  expect_throws<ValueError>([&] { rotary.rotate(ones({2, 4}), -1); }, {"offset", "-1"});
  expect_throws<ValueError>([] { nn::LearnedPositions(-1, 2); }, {"max_length", "-1"});
  expect_throws<ShapeError>([] { nn::LearnedPositions(4, 2)(ones({3, 4})); }, {"LearnedPositions", "width = 2"});
  expect_throws<ValueError>([] { nn::alibi_slopes(0); }, {"alibi_slopes", "0"});
  expect_throws<ValueError>([] { nn::alibi_slopes(std::int64_t{1} << 62); }, {"alibi_slopes", "2^20"});
  expect_throws<DtypeError>([] { nn::alibi_bias(2, 3, 3, int64); }, {"alibi_slopes", "int64"});
  expect_throws<ValueError>([] { nn::alibi_bias(2, -3, 3); }, {"alibi_bias", "-3"});
}
