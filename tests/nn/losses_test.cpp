#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

tg::Tensor logits() { return tg::tensor({{2., 1., 0.}, {0., 0., 0.}, {1., 3., 2.}}, tg::float64); }

}  // namespace

TEST(CrossEntropyTest, IgnoredRowsDoNotCount) {
  tg::Tensor x = logits().requires_grad_();
  const tg::Tensor targets = tg::tensor({0, -100, 2});
  EXPECT_TRUE(tg::allclose(nn::cross_entropy(x, targets, {.reduction = nn::Reduction::none}),
                           tg::tensor({0.40760596444438, 0., 1.40760596444438}, tg::float64)));
  EXPECT_NEAR(nn::cross_entropy(x, targets, {.reduction = nn::Reduction::sum}).item(), 1.81521192888876, 1e-12);
  const tg::Tensor mean = nn::cross_entropy(x, targets);
  EXPECT_NEAR(mean.item(), 0.90760596444438, 1e-12);
  mean.backward();
  EXPECT_TRUE(tg::allclose(
      x.grad(),
      tg::tensor({{-0.16737952, 0.12236424, 0.04501529}, {0., 0., 0.}, {0.04501529, 0.33262048, -0.37763576}},
                 tg::float64),
      0, 1e-8));
}

TEST(CrossEntropyTest, ClassWeights) {
  const tg::Tensor weight = tg::tensor({1., 2., 4.}, tg::float64);
  EXPECT_NEAR(nn::cross_entropy(logits(), tg::tensor({0, 1, 2}), {.weight = weight}).item(), 1.17646491, 1e-8);
}

TEST(CrossEntropyTest, AllIgnoredIsZero) {
  tg::Tensor x = logits().requires_grad_();
  const tg::Tensor loss = nn::cross_entropy(x, tg::full({3}, 7, tg::int64), {.ignore_index = 7});
  EXPECT_EQ(loss.item(), 0.0);
  loss.backward();
  EXPECT_TRUE(tg::equal(x.grad(), tg::zeros({3, 3})));
}

TEST(CrossEntropyTest, LargeLogitsDoNotOverflow) {
  for (const double large : {1000.0, -1000.0}) {
    const tg::Tensor x = tg::tensor({{1000.0, 0.0}}) * (large / 1000.0);
    EXPECT_EQ(nn::cross_entropy(x, tg::tensor({1})).item(), large > 0 ? 1000.0 : 0.0);
    EXPECT_EQ(nn::cross_entropy(x, tg::tensor({0})).item(), large > 0 ? 0.0 : 1000.0);
  }
}

TEST(CrossEntropyTest, ClassesAreOnDimensionOne) {
  const tg::Tensor x = tg::randn({2, 3, 4, 5}, tg::float64), targets = tg::randint(0, 3, {2, 4, 5});
  const tg::Tensor losses = nn::cross_entropy(x, targets, {.reduction = nn::Reduction::none});
  const tg::Tensor expected = -tg::gather(tg::log_softmax(x, 1), 1, targets.unsqueeze(1)).squeeze(1);
  EXPECT_TRUE(tg::allclose(losses, expected));
  EXPECT_NEAR(nn::cross_entropy(x, targets).item(), expected.mean().item(), 1e-12);
  const tg::Tensor single = tg::tensor({2., 1., 0.}, tg::float64);
  EXPECT_NEAR(nn::cross_entropy(single, tg::tensor(0)).item(), 0.40760596444438, 1e-12);
}

TEST(CrossEntropyTest, SmoothingIsATargetOfProbabilities) {
  const tg::Tensor x = tg::randn({4, 3}, tg::float64), targets = tg::tensor({0, 2, 1, 1});
  const tg::Tensor one_hot = tg::eq(targets.unsqueeze(1), tg::arange(3)).to(tg::float64);
  const double smoothed = nn::cross_entropy(x, targets, {.label_smoothing = 0.1}).item();
  EXPECT_NEAR(smoothed, nn::cross_entropy(x, one_hot * 0.9 + 0.1 / 3).item(), 1e-12);
  EXPECT_NEAR(smoothed, nn::cross_entropy(x, one_hot, {.label_smoothing = 0.1}).item(), 1e-12);
  const auto f = [&](const tg::Tensors& in) {
    return nn::cross_entropy(in[0], tg::tensor({0, -100, 1, 1}), {.label_smoothing = 0.1});
  };
  const auto report = tg::autograd::gradcheck(f, {x});
  EXPECT_TRUE(report) << report.to_string();
}

TEST(CrossEntropyTest, AccumulatedMicroBatchesWeighTokensAlike) {
  // One token with loss 4 and three with loss 0: the mean of the joint batch is 1, by sums and one division.
  const tg::Tensor a = tg::tensor({{-1e3, -1e3 + 4.0}}), b = tg::tensor({{900., 0.}, {900., 0.}, {900., 0.}});
  const double sum = nn::cross_entropy(a, tg::tensor({0}), {.reduction = nn::Reduction::sum}).item() +
                     nn::cross_entropy(b, tg::tensor({0, 0, 0}), {.reduction = nn::Reduction::sum}).item();
  EXPECT_NEAR(sum / 4, 1.0, 0.01);
}

TEST(CrossEntropyTest, Mistakes) {
  EXPECT_THROW(nn::cross_entropy(logits(), tg::tensor({0, 1})), tg::ShapeError);
  EXPECT_THROW(nn::cross_entropy(logits(), tg::tensor({true, false, true})), tg::DtypeError);
  EXPECT_THROW(nn::cross_entropy(logits(), tg::tensor({0, 1, 2}), {.label_smoothing = 2}), tg::ValueError);
  EXPECT_THROW(nn::cross_entropy(logits(), tg::tensor({0, 1, 2}), {.weight = tg::ones({2})}), tg::ShapeError);
  for (const std::int64_t bad : {-4, 3}) try {
      nn::cross_entropy(logits(), tg::tensor({std::int64_t{0}, bad, std::int64_t{1}}));
      ADD_FAILURE() << "nothing was thrown for " << bad;
    } catch (const tg::IndexError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(std::to_string(bad)), std::string::npos) << text;
    }
}

TEST(MseLossTest, AveragesOverAllElements) {
  const tg::Tensor a = tg::tensor({{1., 2.}, {3., 4.}}), b = tg::tensor({{1., 0.}, {0., 4.}});
  EXPECT_DOUBLE_EQ(nn::mse_loss(a, b).item(), 13.0 / 4);
  EXPECT_DOUBLE_EQ(nn::mse_loss(a, b, {.reduction = nn::Reduction::sum}).item(), 13.0);
  EXPECT_TRUE(tg::equal(nn::mse_loss(a, b, {.reduction = nn::Reduction::none}), tg::tensor({{0., 4.}, {9., 0.}})));
  EXPECT_THROW(nn::mse_loss(tg::ones({4, 1}), tg::ones({4})), tg::ShapeError);
}
