#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>

#include "autograd/expectations.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
using tapegrad::expectations::expect_throws;

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

namespace {

using Losses = std::vector<std::pair<std::string, std::function<tg::Tensor(const tg::Tensor&, const tg::Tensor&)>>>;

/// Those that compare element by element, without a reduction.
Losses elementwise_losses() {
  constexpr auto none = nn::Reduction::none;
  return {
      {"mse_loss", [](auto& x, auto& y) { return nn::mse_loss(x, y, {.reduction = none}); }},
      {"l1_loss", [](auto& x, auto& y) { return nn::l1_loss(x, y, {.reduction = none}); }},
      {"smooth_l1_loss", [](auto& x, auto& y) { return nn::smooth_l1_loss(x, y, {.beta = 0.4, .reduction = none}); }},
      {"huber_loss", [](auto& x, auto& y) { return nn::huber_loss(x, y, {.delta = 0.7, .reduction = none}); }},
      {"binary_cross_entropy_with_logits",
       [](auto& x, auto& y) { return nn::binary_cross_entropy_with_logits(x, y, {.reduction = none}); }},
      {"kl_div", [](auto& x, auto& y) { return nn::kl_div(x, y, {.reduction = nn::KlReduction::none}); }}};
}

}  // namespace

TEST(LossesTest, AreDifferentiableTwice) {
  tg::manual_seed(8);
  const tg::Tensor x = tg::randn({3, 4}, tg::float64), y = tg::rand({3, 4}, tg::float64) + 0.1;
  Losses losses = elementwise_losses();
  losses.emplace_back("kl_div of logarithms", [](auto& a, auto& b) {
    return nn::kl_div(a, b, {.reduction = nn::KlReduction::batchmean, .log_target = true});
  });
  losses.emplace_back("weighted", [](auto& a, auto& b) {
    return nn::binary_cross_entropy_with_logits(a, b,
                                                {.weight = tg::tensor({{1.}, {3.}, {0.5}}, tg::float64),
                                                 .pos_weight = tg::tensor({1., 2., 3., 4.}, tg::float64)});
  });
  losses.emplace_back("nll_loss", [](auto& a, auto& b) {
    return nn::nll_loss(a * b, tg::tensor({3, -100, 1}), {.weight = tg::tensor({1., 2., 3., 4.}, tg::float64)});
  });
  losses.emplace_back("cross_entropy of probabilities", [](auto& a, auto& b) { return nn::cross_entropy(a, b); });
  for (const auto& [name, loss] : losses) {
    const auto f = [&loss = loss](const tg::Tensors& in) { return loss(in[0], in[1]); };
    const auto once = tg::autograd::gradcheck(f, {x, y}), twice = tg::autograd::gradgradcheck(f, {x, y});
    EXPECT_TRUE(once) << name << once.to_string();
    EXPECT_TRUE(twice) << name << twice.to_string();
  }
}

TEST(LossesTest, NothingIsBroadcastAndIntegersAreNoInput) {
  for (const auto& one : elementwise_losses()) {
    const std::string& name = one.first;
    const auto& loss = one.second;
    expect_throws<tg::ShapeError>([&] { loss(tg::ones({4, 1}), tg::ones({4})); }, {name, "[4, 1]", "[4]"});
    expect_throws<tg::DtypeError>([&] { loss(tg::tensor({1, 2}), tg::tensor({1, 2})); }, {name, "int64"});
    EXPECT_EQ(loss(tg::ones({2, 0}), tg::ones({2, 0})).shape(), (tg::Shape{2, 0})) << name;
    EXPECT_EQ(loss(tg::ones({2}), tg::tensor({true, false})).dtype(), tg::float32) << name;
    const tg::Tensor x = tg::rand({3, 4}), y = tg::rand({3, 4});
    EXPECT_TRUE(tg::equal(loss(x.transpose(0, 1), y.transpose(0, 1)), loss(x, y).transpose(0, 1))) << name;
  }
}

TEST(LossesTest, MeansOverNothingAreZero) {
  const tg::Tensor none = tg::ones({0, 3});
  EXPECT_EQ(nn::mse_loss(none, none).item(), 0.0);
  EXPECT_EQ(nn::huber_loss(none, none).item(), 0.0);
  EXPECT_EQ(nn::binary_cross_entropy_with_logits(none, none).item(), 0.0);
  EXPECT_EQ(nn::kl_div(none, none, {.reduction = nn::KlReduction::batchmean}).item(), 0.0);
  tg::Tensor x = tg::randn({2, 3}).requires_grad_();
  const tg::Tensor loss = nn::nll_loss(x, tg::tensor({-100, -100}));
  EXPECT_EQ(loss.item(), 0.0);
  loss.backward();
  EXPECT_TRUE(tg::equal(x.grad(), tg::zeros({2, 3})));
}

TEST(LossesTest, ClassWeightsAreConstantsAndFactorsAreNot) {
  const tg::Tensor x = tg::ones({2, 3}), weight = tg::ones({3}).requires_grad_();
  EXPECT_FALSE(nn::cross_entropy(x, tg::tensor({0, 1}), {.weight = weight}).requires_grad());
  EXPECT_FALSE(nn::nll_loss(x, tg::tensor({0, 1}), {.weight = weight}).requires_grad());
  const tg::Tensor loss = nn::binary_cross_entropy_with_logits(x, tg::ones({2, 3}),
                                                               {.pos_weight = weight, .reduction = nn::Reduction::sum});
  loss.backward();
  EXPECT_NEAR(weight.grad().sum().item(), loss.item(), 1e-6);
}

TEST(LossesTest, LogitsOfAnySize) {
  tg::Tensor x = tg::tensor({1e4, -1e4, 1e4, -1e4, 30.0, -30.0}).requires_grad_();
  const tg::Tensor y = tg::tensor({1, 0, 0, 1, 1, 0});
  const tg::Tensor losses = nn::binary_cross_entropy_with_logits(x, y, {.reduction = nn::Reduction::none});
  const double small = std::exp(-30.0);  // what 30 - 30 would lose in float32
  EXPECT_TRUE(tg::allclose(losses, tg::tensor({0., 0., 1e4, 1e4, small, small}), 1e-5, 0));
  losses.sum().backward();
  EXPECT_TRUE(tg::allclose(x.grad(), tg::tensor({0., 0., 1., -1., -small, small}), 1e-5, 0));
}

TEST(LossesTest, InfiniteDifferencesHaveAGradient) {
  tg::Tensor x = tg::tensor({1e300, -1e300, 0.0}, tg::float64).requires_grad_();
  nn::smooth_l1_loss(x, tg::tensor({-1e300, 1e300, 0.0}, tg::float64) * 1e300, {.reduction = nn::Reduction::sum})
      .backward();
  EXPECT_TRUE(tg::equal(x.grad(), tg::tensor({1., -1., 0.}, tg::float64)));
}

TEST(LossesTest, WithoutABendTheyAreSquares) {
  const tg::Tensor x = tg::tensor({3.0, -1.0}, tg::float64), zero = tg::zeros({2}, tg::float64);
  EXPECT_EQ(nn::huber_loss(x, zero, {.delta = INFINITY}).item(), 2.5);
  EXPECT_EQ(nn::smooth_l1_loss(x, zero, {.beta = INFINITY}).item(), 0);
}

TEST(LossesTest, SmoothL1BendsAlsoAtZero) {
  tg::Tensor x = tg::tensor({0.0}, tg::float64).requires_grad_();
  const tg::Tensor loss = nn::smooth_l1_loss(x, tg::zeros({1}, tg::float64), {.beta = 0.5});
  const tg::Tensor slope = tg::autograd::grad({loss}, {x}, {.create_graph = true})[0];
  EXPECT_DOUBLE_EQ(tg::autograd::grad({slope.sum()}, {x})[0].item(), 2.0);
}

TEST(LossesTest, ImpossibleEventsCostNothingInADivergence) {
  const double never = -std::numeric_limits<double>::infinity();
  for (const bool log_target : {false, true}) {
    tg::Tensor x = tg::tensor({never, 0.0}, tg::float64).requires_grad_();
    const tg::Tensor target = log_target ? tg::tensor({never, 0.0}, tg::float64) : tg::tensor({0., 1.}, tg::float64);
    const tg::Tensor loss = nn::kl_div(x, target, {.log_target = log_target});
    EXPECT_EQ(loss.item(), 0.0);
    loss.backward();
    EXPECT_TRUE(tg::equal(x.grad(), tg::tensor({0., -0.5}, tg::float64)));
  }
}

TEST(LossesTest, NllIsCrossEntropyBehindItsLogSoftmax) {
  const tg::Tensor x = tg::randn({2, 3, 4}, tg::float64), target = tg::tensor({{0, 1, 2, 0}, {-100, 2, 2, 1}});
  const tg::Tensor weight = tg::tensor({1., 2., 4.}, tg::float64);
  EXPECT_NEAR(nn::nll_loss(tg::log_softmax(x, 1), target, {.weight = weight}).item(),
              nn::cross_entropy(x, target, {.weight = weight}).item(), 1e-12);
}

TEST(LossesTest, Mistakes) {
  const tg::Tensor x = tg::zeros({2, 3}), y = tg::zeros({2, 3});
  expect_throws<tg::IndexError>([&] { nn::nll_loss(x, tg::tensor({0, 3})); }, {"nll_loss", "[0, 3)", "got 3 in row 1"});
  expect_throws<tg::IndexError>(
      [&] {
        nn::cross_entropy(x, tg::tensor({-4, 0}));
      },
      {"cross_entropy: every target must be in [0, 3)", "got -4 in row 0"});
  expect_throws<tg::DtypeError>(
      [&] {
        nn::cross_entropy(x.to(tg::int64), tg::tensor({0, 0}));
      },
      {"cross_entropy: input must be float32 or float64; got int64"});
  expect_throws<tg::ShapeError>([&] { nn::nll_loss(x, tg::tensor({0})); }, {"nll_loss", "[2]", "[1]"});
  expect_throws<tg::ShapeError>([&] { nn::nll_loss(tg::tensor(1.0), tg::tensor(0)); }, {"nll_loss", "(N, C)"});
  expect_throws<tg::DtypeError>([&] { nn::nll_loss(x, tg::tensor({true, false})); }, {"nll_loss", "int64", "bool"});
  expect_throws<tg::ShapeError>(
      [&] {
        nn::nll_loss(x, tg::tensor({0, 1}), {.weight = tg::ones({2})});
      },
      {"nll_loss", "weight", "[3]", "[2]"});
  expect_throws<tg::ValueError>([&] { nn::smooth_l1_loss(x, y, {.beta = -1}); }, {"smooth_l1_loss", "-1"});
  expect_throws<tg::ValueError>([&] { nn::huber_loss(x, y, {.delta = 0}); }, {"huber_loss", "0"});
  for (const tg::Tensor& wrong : {tg::ones({5}), tg::ones({4, 2, 3})})
    expect_throws<tg::ShapeError>([&] { nn::binary_cross_entropy_with_logits(x, y, {.pos_weight = wrong}); },
                                  {"binary_cross_entropy_with_logits", "[2, 3]", wrong.shape().to_string()});
}
