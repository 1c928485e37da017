// Tensors made from probabilities and classes, and after the likeness of others.
#include "autograd/expectations.hpp"

namespace tapegrad {
namespace {

using namespace expectations;
using Integers = std::vector<std::int64_t>;

Integers integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }

TEST(Creation, Likeness) {
  const Tensor like = transpose(zeros({2, 3}, float64), 0, 1), whole = tensor({1, 2});
  for (const Tensor& x :
       {empty_like(like), zeros_like(like), ones_like(like), full_like(like, 2.5), rand_like(like), randn_like(like)}) {
    EXPECT_EQ(x.shape(), (Shape{3, 2}));
    EXPECT_EQ(x.dtype(), float64);
    EXPECT_FALSE(x.requires_grad());
  }
  EXPECT_EQ(empty_like(whole).dtype(), int64);
  EXPECT_EQ(integers(full_like(whole, 7)), (Integers{7, 7}));
  expect_throws<DtypeError>([&] { rand_like(whole); }, {"rand", "int64"});
}

TEST(Creation, EyeOfAnyShape) {
  EXPECT_EQ(integers(eye(2, 3)), (Integers{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(integers(eye(3, 2, int64)), (Integers{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(integers(eye(2, int64)), (Integers{1, 0, 0, 1}));
  EXPECT_EQ(eye(2, 0).shape(), (Shape{2, 0}));
  EXPECT_EQ(eye(0, 2).shape(), (Shape{0, 2}));
  expect_throws<ShapeError>([] { eye(2, -1); }, {"eye", "[2, -1]"});
}

TEST(Bernoulli, FollowsItsProbabilities) {
  manual_seed(1);
  for (const Dtype dtype : {float32, float64}) {
    const Tensor p = expand(tensor({0.0, 0.25, 1.0}, dtype), {4000, 3});
    const Tensor drawn = bernoulli(p), share = mean(drawn, 0);
    EXPECT_EQ(drawn.dtype(), dtype);
    EXPECT_EQ(drawn.shape(), p.shape());
    EXPECT_TRUE(all(logical_or(eq(drawn, 0), eq(drawn, 1))).item() != 0);
    EXPECT_EQ(share.select(0, 0).item(), 0);
    EXPECT_NEAR(share.select(0, 1).item(), 0.25, 0.035);
    EXPECT_EQ(share.select(0, 2).item(), 1);
  }
  EXPECT_EQ(bernoulli(zeros({0, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(bernoulli(tensor(1.0)).item(), 1);
  expect_throws<ValueError>([] { bernoulli(tensor({0.5, 1.5})); }, {"bernoulli", "1.5", "element 1"});
  expect_throws<ValueError>([] { bernoulli(tensor({kNaN})); }, {"bernoulli", "nan"});
  expect_throws<DtypeError>([] { bernoulli(tensor({1})); }, {"bernoulli", "int64"});
}

TEST(Multinomial, WithReplacementFollowsTheWeights) {
  manual_seed(2);
  const Tensor weights = tensor({{0.0, 2.0, 0.0, 6.0, 0.0}, {1.0, 0.0, 0.0, 0.0, 1.0}}, float64);
  const Tensor drawn = multinomial(weights, 8000, true);
  EXPECT_EQ(drawn.shape(), (Shape{2, 8000}));
  EXPECT_EQ(drawn.dtype(), int64);
  const Tensor share = mean(to(one_hot(drawn, 5), float64), 1);
  expect_near(share, {0, 0.25, 0, 0.75, 0, 0.5, 0, 0, 0, 0.5}, 0.03);
  for (const std::int64_t never : {0, 2, 4}) EXPECT_EQ(share.select(0, 0).select(0, never).item(), 0);
}

TEST(Multinomial, WithoutReplacementTakesEachOnce) {
  manual_seed(3);
  const Tensor weights = tensor({1.0, 0.0, 2.0, 1.0});
  Values first(4);
  for (int i = 0; i < 4000; ++i) {
    Integers drawn = integers(multinomial(weights, 3));
    first[static_cast<std::size_t>(drawn[0])] += 1.0 / 4000;
    std::sort(drawn.begin(), drawn.end());
    ASSERT_EQ(drawn, (Integers{0, 2, 3}));
  }
  EXPECT_NEAR(first[0], 0.25, 0.02);
  EXPECT_NEAR(first[2], 0.5, 0.02);
  EXPECT_EQ(multinomial(weights, 0).shape(), (Shape{0}));
  EXPECT_EQ(multinomial(ones({0, 3}), 2).shape(), (Shape{0, 2}));
}

TEST(Multinomial, SameSeedSameDraws) {
  const Tensor weights = arange(50).to(float32);
  for (const bool replacement : {false, true})
    expect_same_on_any_threads([&] {
      manual_seed(9);
      return Tensors{multinomial(weights, 20, replacement)};
    });
}

TEST(Multinomial, Errors) {
  expect_throws<ValueError>([] { multinomial(tensor({1.0, 0.0}), 2); }, {"2 or more", "row with 1", "replacement"});
  expect_throws<ValueError>([] { multinomial(tensor({0.0, 0.0}), 1, true); }, {"1 or more", "row with 0"});
  for (const double wrong : {-0.5, kNaN, kInf})
    expect_throws<ValueError>([&] { multinomial(tensor({1.0, wrong}), 1); }, {"finite and not negative"});
  expect_throws<ValueError>([] { multinomial(ones({2}), -1); }, {"count", "-1"});
  expect_throws<ShapeError>([] { multinomial(ones({2, 2, 2}), 1); }, {"rank 1 or 2", "[2, 2, 2]"});
  expect_throws<DtypeError>([] { multinomial(tensor({1, 2}), 1); }, {"multinomial", "int64"});
}

TEST(OneHot, MarksTheClass) {
  const Tensor marked = one_hot(tensor({{2, 0}, {1, 1}}), 3);
  EXPECT_EQ(marked.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(marked.dtype(), int64);
  EXPECT_EQ(integers(marked), (Integers{0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(one_hot(tensor(1), 2).shape(), (Shape{2}));
  EXPECT_EQ(one_hot(empty({0}, int64), 4).shape(), (Shape{0, 4}));
  expect_throws<IndexError>([] { one_hot(tensor({0, 3}), 3); }, {"[0, 3)", "got 3", "element 1"});
  expect_throws<IndexError>([] { one_hot(tensor({-1}), 3); }, {"got -1"});
  expect_throws<DtypeError>([] { one_hot(tensor({1.0}), 3); }, {"float32"});
  expect_throws<ValueError>([] { one_hot(tensor({0}), -2); }, {"-2"});
}

}  // namespace
}  // namespace tapegrad
