#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace optim = tapegrad::optim;

namespace {

tg::Tensor with_gradient(std::initializer_list<double> gradient) {
  tg::Tensor p = tg::zeros({static_cast<std::int64_t>(gradient.size())}).requires_grad_();
  p.set_grad(tg::tensor(gradient));
  return p;
}

}  // namespace

TEST(ClipTest, ScalesAllGradientsByTheNormOfThemTogether) {
  const tg::Tensor a = with_gradient({3.0}), b = with_gradient({0.0, -4.0});
  EXPECT_DOUBLE_EQ(optim::clip_grad_norm({a, b}, 1.0), 5.0);
  EXPECT_NEAR(a.grad().item(), 3.0 / (5.0 + 1e-6), 1e-7);
  EXPECT_NEAR(b.grad().select(0, 1).item(), -4.0 / (5.0 + 1e-6), 1e-7);
}

TEST(ClipTest, ShortGradientsAreLeftAlone) {
  const tg::Tensor a = with_gradient({0.3, 0.4});
  EXPECT_NEAR(optim::clip_grad_norm({a}, 1.0), 0.5, 1e-7);
  EXPECT_TRUE(tg::equal(a.grad(), tg::tensor({0.3, 0.4})));
}

TEST(ClipTest, OtherNorms) {
  const tg::Tensor a = with_gradient({3.0, -4.0});
  EXPECT_NEAR(optim::clip_grad_norm({a}, 100, {.norm_type = 1}), 7.0, 1e-12);
  EXPECT_EQ(optim::clip_grad_norm({a}, 100, {.norm_type = std::numeric_limits<double>::infinity()}), 4.0);
}

TEST(ClipTest, ZeroAndMissingGradients) {
  const tg::Tensor a = with_gradient({0.0, 0.0}), without = tg::zeros({2}).requires_grad_();
  EXPECT_EQ(optim::clip_grad_norm({a, without}, 1.0), 0.0);
  EXPECT_TRUE(tg::equal(a.grad(), tg::zeros({2})));
  EXPECT_EQ(optim::clip_grad_norm({without}, 1.0), 0.0);
  EXPECT_EQ(optim::clip_grad_norm({}, 1.0), 0.0);
}

TEST(ClipTest, NonfiniteNormsCanBeErrors) {
  for (const double norm_type : {2.0, 1.0, std::numeric_limits<double>::infinity()}) {
    const tg::Tensor a = with_gradient({std::nan(""), 1.0}), b = with_gradient({2.0});
    EXPECT_TRUE(std::isnan(optim::clip_grad_norm({a, b}, 100.0, {.norm_type = norm_type})));
    const tg::Tensor c = with_gradient({std::nan(""), 1.0});
    EXPECT_THROW(optim::clip_grad_norm({b, c}, 1.0, {.norm_type = norm_type, .error_if_nonfinite = true}),
                 tg::ValueError);
    EXPECT_EQ(c.grad().select(0, 1).item(), 1.0);
  }
}

TEST(ClipTest, AGradientThatTwoLeavesWereHandedIsScaledOnceEach) {
  tg::Tensor a = tg::zeros({4}).requires_grad_(), b = tg::zeros({4}).requires_grad_();
  ((a + b) * 3).sum().backward();
  optim::clip_grad_norm({a, b}, 1.0);
  const tg::Tensor expected = tg::full({4}, 3.0 / std::sqrt(72.0));
  EXPECT_TRUE(tg::allclose(a.grad(), expected) && tg::allclose(b.grad(), expected));
  (a * 2).sum().backward();
  EXPECT_TRUE(tg::allclose(a.grad(), expected + 2) && tg::allclose(b.grad(), expected));
}

TEST(ClipTest, AParameterGivenTwiceCountsOnce) {
  const tg::Tensor a = with_gradient({3.0, -4.0});
  EXPECT_DOUBLE_EQ(optim::clip_grad_norm({a, a}, 1.0), 5.0);
  EXPECT_TRUE(tg::allclose(a.grad(), tg::tensor({0.6, -0.8})));
}

TEST(ClipTest, Values) {
  const tg::Tensor a = with_gradient({3.0, -4.0, 0.5});
  optim::clip_grad_value({a}, 1.0);
  EXPECT_TRUE(tg::equal(a.grad(), tg::tensor({1.0, -1.0, 0.5})));
  const tg::Tensor b = with_gradient({std::nan(""), 5.0}), shared = tg::zeros({2}).requires_grad_();
  shared.set_grad(b.grad());
  optim::clip_grad_value({b, b, tg::zeros({1}).requires_grad_()}, 2.0);
  EXPECT_TRUE(std::isnan(b.grad().select(0, 0).item()));
  EXPECT_EQ(b.grad().select(0, 1).item(), 2.0);
  EXPECT_EQ(shared.grad().select(0, 1).item(), 5.0);
  EXPECT_THROW(optim::clip_grad_value({a}, -1.0), tg::ValueError);
  EXPECT_THROW(optim::clip_grad_value({a}, std::nan("")), tg::ValueError);
  EXPECT_THROW(optim::clip_grad_norm({a}, -1.0), tg::ValueError);
  EXPECT_THROW(optim::clip_grad_norm({a}, 1.0, {.norm_type = 0}), tg::ValueError);
}
