#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace optim = tapegrad::optim;

namespace {

tg::Tensor parameter(double value) { return tg::tensor({value}, tg::float64).requires_grad_(); }

void step_with(optim::Optimizer& optimizer, const tg::Tensor& p, double gradient) {
  p.set_grad(tg::full({1}, gradient, tg::float64));
  optimizer.step();
}

}  // namespace

TEST(AdamTest, DecayOfAdamAndOfAdamW) {
  const auto after = [](auto make, double gradient) {
    tg::Tensor p = parameter(2.0);
    auto optimizer = make(p);
    step_with(*optimizer, p, gradient);
    return p.item();
  };
  const auto adam = [](const tg::Tensor& p) {
    return std::make_unique<optim::Adam>(tg::Tensors{p}, optim::AdamOptions{.lr = 0.1, .weight_decay = 0.1});
  };
  const auto adamw = [](const tg::Tensor& p) {
    return std::make_unique<optim::AdamW>(tg::Tensors{p}, optim::AdamWOptions{.lr = 0.1, .weight_decay = 0.1});
  };
  EXPECT_NEAR(after(adamw, 0.5), 1.880000002, 1e-9);
  EXPECT_NEAR(after(adam, 0.5), 1.900000001, 1e-9);
  EXPECT_NEAR(after(adamw, 0.0), 1.98, 1e-12);
}

TEST(AdamTest, RemembersMomentsAndSteps) {
  tg::Tensor p = parameter(1.0);
  optim::Adam optimizer({p}, {.lr = 0.1});
  for (const double gradient : {1.0, 1.0, 1.0, 0.1}) step_with(optimizer, p, gradient);
  EXPECT_NEAR(p.item(), 0.61486963, 1e-8);
}

TEST(AdamTest, AmsgradNeverForgetsALargeGradient) {
  tg::Tensor p = parameter(0.0);
  optim::Adam optimizer({p}, {.lr = 0.1, .betas = {0.5, 0.5}, .amsgrad = true});
  double m = 0, v = 0, largest = 0, expected = 0;
  for (int t = 1; t <= 4; ++t) {
    const double g = t == 1 ? 10.0 : 0.1;
    m = 0.5 * m + 0.5 * g;
    v = 0.5 * v + 0.5 * g * g;
    largest = std::max(largest, v);
    expected -= 0.1 * (m / (1 - std::pow(0.5, t))) / (std::sqrt(largest / (1 - std::pow(0.5, t))) + 1e-8);
    step_with(optimizer, p, g);
    EXPECT_NEAR(p.item(), expected, 1e-12);
  }
}

TEST(AdamTest, VectorsAndTheirEndsAreUpdatedAlike) {
  for (const tg::Dtype dtype : {tg::float32, tg::float64})
    for (const std::int64_t size : {1, 7, 16, 37, 40000}) {
      tg::Tensor p = tg::full({size}, 0.7, dtype).requires_grad_();
      optim::AdamW optimizer({p}, {.lr = 0.01});
      for (int t = 0; t < 3; ++t) {
        p.set_grad(tg::full({size}, 0.3 - t, dtype));
        optimizer.step();
      }
      EXPECT_LT((p.max() - p.min()).item(), 1e-6) << size;
    }
}

TEST(SgdTest, MomentumDampeningAndNesterov) {
  struct Row {
    optim::SGDOptions options;
    double after_two;
  };
  // p = 1, gradients 0.5 and -0.2, by hand.
  const Row rows[] = {
      {{.lr = 0.1}, 1 - 0.05 + 0.02},
      {{.lr = 0.1, .momentum = 0.9}, 1 - 0.05 - 0.1 * (0.9 * 0.5 - 0.2)},
      {{.lr = 0.1, .momentum = 0.9, .dampening = 0.5}, 1 - 0.05 - 0.1 * (0.9 * 0.5 - 0.1)},
      {{.lr = 0.1, .momentum = 0.9, .nesterov = true}, 1 - 0.1 * (0.5 + 0.45) - 0.1 * (-0.2 + 0.9 * (0.9 * 0.5 - 0.2))},
      {{.lr = 0.1, .maximize = true}, 1 + 0.05 - 0.02},
      {{.lr = 0.1, .weight_decay = 0.2}, 0.93 + 0.02 - 0.1 * 0.2 * 0.93}};
  for (const auto& [options, expected] : rows) {
    tg::Tensor p = parameter(1.0);
    optim::SGD optimizer({p}, options);
    step_with(optimizer, p, 0.5);
    step_with(optimizer, p, -0.2);
    EXPECT_NEAR(p.item(), expected, 1e-14);
  }
}

TEST(OptimizerTest, GradientsAreLeftAloneAndParametersWithoutOneAreSkipped) {
  tg::Tensor a = parameter(1.0), b = parameter(2.0);
  optim::AdamW optimizer({a, b}, {.lr = 0.1});
  step_with(optimizer, a, 3.0);
  EXPECT_EQ(a.grad().item(), 3.0);
  EXPECT_NE(a.item(), 1.0);
  EXPECT_EQ(b.item(), 2.0);
  EXPECT_TRUE(a.is_leaf() && a.requires_grad());
  optimizer.zero_grad();
  EXPECT_FALSE(a.grad().defined());
}

TEST(OptimizerTest, WithoutDecayAnInfiniteParameterStays) {
  const tg::Tensor p = parameter(INFINITY);
  std::unique_ptr<optim::Optimizer> optimizers[] = {
      std::make_unique<optim::SGD>(tg::Tensors{p}), std::make_unique<optim::Adam>(tg::Tensors{p}),
      std::make_unique<optim::AdamW>(tg::Tensors{p}), std::make_unique<optim::RMSprop>(tg::Tensors{p}),
      std::make_unique<optim::Lion>(tg::Tensors{p})};
  for (const auto& optimizer : optimizers) {
    step_with(*optimizer, p, 1.0);
    EXPECT_EQ(p.item(), INFINITY);
  }
}

TEST(OptimizerTest, GroupsOverrideDefaults) {
  tg::Tensor a = parameter(1.0), b = parameter(1.0);
  optim::SGD optimizer({{.parameters = {a}}, {.parameters = {b}, .lr = 0.5, .weight_decay = 1.0}}, {.lr = 0.1});
  EXPECT_EQ(optimizer.lr(), 0.1);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  a.set_grad(tg::ones({1}, tg::float64));
  b.set_grad(tg::ones({1}, tg::float64));
  optimizer.step();
  EXPECT_NEAR(a.item(), 0.9, 1e-15);
  EXPECT_NEAR(b.item(), 0.0, 1e-15);
  optimizer.set_lr(0.2);
  EXPECT_EQ(optimizer.lr(1), 0.2);
}

TEST(OptimizerTest, ParametersOfAnyStrides) {
  tg::Tensor p = tg::tensor({{1., 2., 3.}, {4., 5., 6.}}).transpose(0, 1).detach().requires_grad_();
  optim::SGD optimizer({p}, {.lr = 1.0});
  p.set_grad(tg::tensor({{1., 0.}, {0., 0.}, {0., 2.}}));
  optimizer.step();
  EXPECT_TRUE(tg::equal(p, tg::tensor({{0., 4.}, {2., 5.}, {3., 4.}})));
}

TEST(OptimizerTest, AValueThatBackwardNeedsMustNotBeStepped) {
  tg::Tensor p = parameter(2.0);
  optim::SGD optimizer({p}, {.lr = 0.1});
  const tg::Tensor loss = (p * p).sum();
  step_with(optimizer, p, 1.0);
  EXPECT_THROW(loss.backward(), tg::GradError);
}

TEST(OptimizerTest, Mistakes) {
  tg::Tensor p = parameter(1.0);
  EXPECT_THROW(optim::SGD(tg::Tensors{}), tg::ValueError);
  EXPECT_THROW(optim::AdamW(tg::Tensors{p, p}), tg::ValueError);
  EXPECT_THROW(optim::SGD(tg::Tensors{p * 2}), tg::GradError);
  EXPECT_THROW(optim::SGD(tg::Tensors{tg::tensor({1})}), tg::DtypeError);
  EXPECT_THROW(optim::SGD({p}, {.lr = -1}), tg::ValueError);
  EXPECT_THROW(optim::SGD({p}, {.lr = std::nan("")}), tg::ValueError);
  EXPECT_THROW(optim::SGD({p}, {.momentum = -1}), tg::ValueError);
  EXPECT_THROW(optim::SGD({p}, {.weight_decay = -1}), tg::ValueError);
  EXPECT_THROW(optim::SGD({p}, {.nesterov = true}), tg::ValueError);
  EXPECT_THROW(optim::SGD({p}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), tg::ValueError);
  EXPECT_THROW(optim::Adam({p}, {.betas = {1.0, 0.9}}), tg::ValueError);
  EXPECT_THROW(optim::AdamW({p}, {.eps = -1}), tg::ValueError);
  EXPECT_THROW(optim::SGD({p}, {.lr = INFINITY}), tg::ValueError);
  EXPECT_THROW(optim::SGD({p}, {.momentum = 0.9, .dampening = std::nan("")}), tg::ValueError);
  EXPECT_THROW(optim::SGD(tg::Tensors{tg::ones({1, 3}).expand({2, 3}).requires_grad_()}), tg::ValueError);
  optim::SGD optimizer({p});
  EXPECT_THROW(optimizer.lr(1), tg::IndexError);
  EXPECT_THROW(optimizer.set_lr(0.1, 1), tg::IndexError);
  EXPECT_THROW(optimizer.set_lr(std::nan("")), tg::ValueError);
}

TEST(OptimizerTest, StateOfAnotherDtypeOrShapeIsRefusedBeforeAnythingChanges) {
  const auto check = [](auto optimizer_of) {
    tg::Tensor first = parameter(1.0), second = parameter(2.0);
    auto optimizer = optimizer_of(tg::Tensors{first, second});
    const auto set_gradients = [&] {
      for (const tg::Tensor& p : {first, second}) p.set_grad(tg::ones(p.shape(), p.dtype()));
    };
    set_gradients();
    optimizer->step();
    const double before = first.item();
    const auto becomes = [&](const tg::core::Array& value) {
      tg::NoGradGuard no_grad;
      second.set_grad({});
      second.mutable_array() = value;
    };
    const tg::core::Array value = second.array();
    becomes(value.converted(tg::float32));
    set_gradients();
    EXPECT_THROW(optimizer->step(), tg::DtypeError);
    becomes(tg::zeros({3}, tg::float64).array());
    set_gradients();
    EXPECT_THROW(optimizer->step(), tg::ShapeError);
    EXPECT_EQ(first.item(), before);
    becomes(value);
    set_gradients();
    {
      tg::NoGradGuard no_grad;
      second.mutable_array() = value.converted(tg::float32);
    }
    EXPECT_THROW(optimizer->step(), tg::DtypeError);
    EXPECT_EQ(first.item(), before);
  };
  check([](const tg::Tensors& p) { return std::make_unique<optim::AdamW>(p); });
  check([](const tg::Tensors& p) { return std::make_unique<optim::SGD>(p, optim::SGDOptions{.momentum = 0.9}); });
}

namespace {

/// One of each kind, for any parameters.
std::vector<std::function<std::unique_ptr<optim::Optimizer>(const tg::Tensors&)>> all_kinds() {
  const auto rest = [](const tg::Tensors& p) {
    return std::vector<optim::ParamGroup>{{.parameters = p, .use_muon = false}};
  };
  return {[](const tg::Tensors& p) { return std::make_unique<optim::SGD>(p, optim::SGDOptions{.momentum = 0.9}); },
          [](const tg::Tensors& p) { return std::make_unique<optim::Adam>(p, optim::AdamOptions{.amsgrad = true}); },
          [](const tg::Tensors& p) { return std::make_unique<optim::AdamW>(p); },
          [](const tg::Tensors& p) {
            return std::make_unique<optim::RMSprop>(p, optim::RMSpropOptions{.momentum = 0.9, .centered = true});
          },
          [](const tg::Tensors& p) { return std::make_unique<optim::Lion>(p, optim::LionOptions{.lr = 0.01}); },
          [rest](const tg::Tensors& p) { return std::make_unique<optim::Muon>(rest(p)); }};
}

}  // namespace

TEST(OptimizerTest, ManyParametersAreSteppedAsEachAlone) {
  for (const auto& make : all_kinds()) {
    tg::Tensors together, alone;
    for (const std::int64_t size : {3, 0, 16384, 1, 20000, 50000, 0, 7}) {
      together.push_back(tg::randn({size}).requires_grad_());
      alone.push_back(together.back().detach().clone().requires_grad_());
    }
    const auto one = make(together);
    std::vector<std::unique_ptr<optim::Optimizer>> each;
    for (const tg::Tensor& p : alone) each.push_back(make({p}));
    for (int t = 0; t < 3; ++t) {
      for (std::size_t i = 0; i < together.size(); ++i) {
        if (i == 2 && t == 1) continue;  // the gradient of the step before, again
        together[i].set_grad(tg::randn(together[i].shape()));
        alone[i].set_grad(together[i].grad());
      }
      const tg::Tensor gradient = together[4].grad().clone();
      one->step();
      EXPECT_TRUE(tg::equal(together[4].grad(), gradient));
      for (const auto& optimizer : each) optimizer->step();
    }
    for (std::size_t i = 0; i < together.size(); ++i)
      EXPECT_TRUE(tg::equal(together[i].detach(), alone[i].detach())) << i;
  }
}

TEST(OptimizerTest, ASteadyStepTakesNoMemory) {
  for (const auto& make : all_kinds()) {
    const tg::Tensor p = tg::ones({300, 30}).requires_grad_(), unused = tg::ones({3}).requires_grad_();
    const auto optimizer = make({p, unused});
    p.set_grad(tg::ones({300, 30}));
    optimizer->step();
    const std::int64_t before = tg::memory::current();
    tg::memory::reset_peak();
    optimizer->step();
    EXPECT_EQ(tg::memory::peak(), before);
    EXPECT_TRUE(tg::equal(unused.detach(), tg::ones({3})));
  }
}

TEST(OptimizerTest, GroupsCanBeAddedLater) {
  tg::Tensor a = parameter(1.0), b = parameter(1.0);
  optim::AdamW optimizer({a}, {.lr = 0.1});
  step_with(optimizer, a, 1.0);
  EXPECT_THROW(optimizer.add_param_group({.parameters = {a}}), tg::ValueError);
  EXPECT_THROW(optimizer.add_param_group({.parameters = {b, b}}), tg::ValueError);
  EXPECT_THROW(optimizer.add_param_group({.parameters = {b}, .momentum = 0.9}), tg::ValueError);
  EXPECT_THROW(optimizer.add_param_group({.parameters = {b}, .betas = {{0.9, 1.0}}}), tg::ValueError);
  EXPECT_EQ(optimizer.groups().size(), 1u);
  optimizer.add_param_group({.parameters = {b}, .lr = 0.5, .amsgrad = true});
  EXPECT_TRUE(*optimizer.groups()[1].amsgrad);
  EXPECT_EQ(*optimizer.groups()[1].weight_decay, 0.01);
  step_with(optimizer, b, 1.0);
  EXPECT_NEAR(b.item(), 1 - 0.005 - 0.5, 1e-6);
  EXPECT_EQ(optimizer.state_dict().at("state.0.step").item(), 2);
  EXPECT_EQ(optimizer.state_dict().at("state.1.step").item(), 1);
}

TEST(OptimizerTest, DecayGroups) {
  const tg::Tensor matrix = tg::ones({2, 2}), vector = tg::ones({2}), filter = tg::ones({2, 2, 2});
  const auto groups = optim::decay_groups({{"m", matrix}, {"v", vector}, {"f", filter}}, 0.3);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].parameters.size(), 2u);
  EXPECT_EQ(groups[1].parameters[0].body(), vector.body());
  optim::AdamW optimizer(optim::decay_groups(tg::Tensors{matrix, vector}, 0.3));
  EXPECT_EQ(*optimizer.groups()[0].weight_decay, 0.3);
  EXPECT_EQ(*optimizer.groups()[1].weight_decay, 0.0);
  const tg::nn::Linear linear(2, 3);
  const optim::AdamW of_module(optim::decay_groups(linear), {.weight_decay = 0.2});
  EXPECT_EQ(of_module.groups()[0].parameters[0].body(), linear.weight().body());
  EXPECT_EQ(*of_module.groups()[0].weight_decay, 0.2);
  EXPECT_EQ(*of_module.groups()[1].weight_decay, 0.0);
  EXPECT_EQ(*optim::decay_groups(linear, 0.1)[0].weight_decay, 0.1);
}

TEST(OptimizerTest, MistakesOfTheOthers) {
  const tg::Tensor p = parameter(1.0);
  const double nan = std::nan("");
  EXPECT_THROW(optim::RMSprop({p}, {.lr = nan}), tg::ValueError);
  EXPECT_THROW(optim::RMSprop({p}, {.alpha = nan}), tg::ValueError);
  EXPECT_THROW(optim::RMSprop({p}, {.alpha = 1.5}), tg::ValueError);
  EXPECT_THROW(optim::RMSprop({p}, {.eps = nan}), tg::ValueError);
  EXPECT_THROW(optim::RMSprop({p}, {.momentum = -0.1}), tg::ValueError);
  EXPECT_THROW(optim::RMSprop({p}, {.weight_decay = nan}), tg::ValueError);
  EXPECT_THROW(optim::RMSprop(tg::Tensors{}), tg::ValueError);
  EXPECT_THROW(optim::Lion({p}, {.betas = {0.9, nan}}), tg::ValueError);
  EXPECT_THROW(optim::Lion({p}, {.lr = -1}), tg::ValueError);
  EXPECT_THROW(optim::Lion(tg::Tensors{}), tg::ValueError);
}

TEST(RmspropTest, AConstantGradientHasNoVariance) {
  for (const tg::Dtype dtype : {tg::float32, tg::float64}) {
    const tg::Tensor p = tg::zeros({9}, dtype).requires_grad_();
    optim::RMSprop optimizer({p}, {.alpha = 0.1, .centered = true});
    for (int t = 0; t < 60; ++t) {
      p.set_grad(tg::full({9}, 0.3, dtype));
      optimizer.step();
    }
    EXPECT_TRUE(std::isfinite(p.sum().item()));
  }
}

TEST(LionTest, SignsOfNothingAndOfNan) {
  const tg::Tensor p = tg::ones({3}).requires_grad_();
  optim::Lion optimizer({p}, {.lr = 0.1});
  p.set_grad(tg::tensor({0.0, std::nan(""), -2.0}));
  optimizer.step();
  const std::vector<double> values = p.to_vector<double>();
  EXPECT_EQ(values[0], 1.0);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_NEAR(values[2], 1.1, 1e-6);
}

TEST(OptimizerTest, TheSameBitsOnAnyNumberOfThreads) {
  for (const auto& make : all_kinds()) {
    const auto run = [&](int threads) {
      tg::set_num_threads(threads);
      tg::manual_seed(6);
      tg::Tensor p = tg::randn({200, 300}).requires_grad_();
      const auto optimizer = make({p});
      for (int t = 0; t < 3; ++t) {
        p.set_grad(tg::randn({200, 300}));
        optim::clip_grad_norm({p}, 1.0);
        optimizer->step();
      }
      return p.detach();
    };
    const int before = tg::num_threads();
    const tg::Tensor one = run(1), three = run(3);
    tg::set_num_threads(before);
    EXPECT_TRUE(tg::equal(one, three));
  }
}

TEST(OptimizerTest, UndefinedParametersAreReportedByName) {
  const tg::Tensors none(1);
  const auto text_of = [](const auto& call) {
    try {
      call();
    } catch (const tg::Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(text_of([&] { optim::SGD{none}; }).substr(0, 4), "SGD:");
  EXPECT_EQ(text_of([&] { optim::Ema{none}; }).substr(0, 4), "Ema:");
  EXPECT_EQ(text_of([&] { optim::clip_grad_norm(none, 1); }).substr(0, 15), "clip_grad_norm:");
  EXPECT_EQ(text_of([&] { optim::clip_grad_value(none, 1); }).substr(0, 16), "clip_grad_value:");
  EXPECT_EQ(text_of([&] { tg::data::TensorDataset{none}; }).substr(0, 14), "TensorDataset:");
  EXPECT_EQ(text_of([&] { tg::nn::Linear{none[0]}; }).substr(0, 7), "Linear:");
}
