#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace optim = tapegrad::optim;

TEST(CosineScheduleTest, WarmsUpFallsAndStays) {
  tg::Tensor p = tg::ones({1}).requires_grad_();
  optim::SGD optimizer({p}, {.lr = 1.0});
  optim::CosineSchedule schedule(optimizer, {.total_steps = 20, .warmup_steps = 4, .min_lr = 0.1});
  for (int t = 0; t < 25; ++t) {
    const double expected = t < 4     ? (t + 1) / 4.0
                            : t >= 20 ? 0.1
                                      : 0.1 + 0.45 * (1 + std::cos(std::numbers::pi * (t - 4) / 16.0));
    EXPECT_NEAR(optimizer.lr(), expected, 1e-15) << t;
    EXPECT_EQ(schedule.lr_at(t), optimizer.lr());
    schedule.step();
  }
}

TEST(CosineScheduleTest, ResumesAtAnyStep) {
  tg::Tensor p = tg::ones({1}).requires_grad_();
  optim::SGD optimizer({p}, {.lr = 0.3});
  optim::CosineSchedule schedule(optimizer, {.total_steps = 10});
  for (int t = 0; t < 7; ++t) schedule.step();
  const double rate = optimizer.lr();
  schedule.set_steps(0);
  EXPECT_EQ(optimizer.lr(), 0.3);
  schedule.set_steps(7);
  EXPECT_EQ(optimizer.lr(), rate);
}

TEST(CosineScheduleTest, EachGroupHasItsOwnHighestRate) {
  tg::Tensor a = tg::ones({1}).requires_grad_(), b = tg::ones({1}).requires_grad_();
  optim::SGD optimizer({{.parameters = {a}}, {.parameters = {b}, .lr = 0.5}}, {.lr = 0.1});
  optim::CosineSchedule schedule(optimizer, {.total_steps = 10, .warmup_steps = 2});
  EXPECT_DOUBLE_EQ(optimizer.lr(0), 0.05);
  EXPECT_DOUBLE_EQ(optimizer.lr(1), 0.25);
}

TEST(CosineScheduleTest, Mistakes) {
  tg::Tensor p = tg::ones({1}).requires_grad_();
  optim::SGD optimizer({p});
  EXPECT_THROW(optim::CosineSchedule(optimizer, {}), tg::ValueError);
  EXPECT_THROW(optim::CosineSchedule(optimizer, {.total_steps = 5, .warmup_steps = 6}), tg::ValueError);
  EXPECT_THROW(optim::CosineSchedule(optimizer, {.total_steps = 5, .warmup_steps = -1}), tg::ValueError);
  EXPECT_THROW(optim::CosineSchedule(optimizer, {.total_steps = 5, .min_lr = -1}), tg::ValueError);
  EXPECT_THROW(optim::CosineSchedule(optimizer, {.total_steps = 5}).lr_at(0, 1), tg::IndexError);
  EXPECT_THROW(optim::CosineSchedule(optimizer, {.total_steps = 5}).lr_at(-1), tg::ValueError);
}

namespace {

struct Fixture {
  tg::Tensor p = tg::ones({1}), q = tg::ones({1});
  optim::SGD optimizer{{{.parameters = {p}, .lr = 0.8}, {.parameters = {q}, .lr = 0.1}}};
};

TEST(ScheduleTest, WarmRestartsEndAtAnyStep) {
  optim::SGD optimizer({tg::ones({1}).requires_grad_()}, {.lr = 0.5});
  const optim::CosineAnnealingWarmRestarts schedule(optimizer, {.T_0 = 1, .T_mult = 1000});
  EXPECT_NEAR(schedule.lr_at(1 + 500), 0.25, 1e-12);
  for (const std::int64_t step : {INT64_MAX, INT64_MAX - 1}) {
    EXPECT_GE(schedule.lr_at(step), 0.0);
    EXPECT_LE(schedule.lr_at(step), 0.5);
  }
  EXPECT_NE(schedule.curve(INT64_MAX).find("9223372036854775807 steps: first 0.5, highest 0.5 at step 0"),
            std::string::npos);
}

}  // namespace

TEST(ScheduleTest, TheFirstRateIsSetAtOnceForEveryGroup) {
  Fixture f;
  const optim::LinearLR schedule(f.optimizer, {.start_factor = 0.25});
  EXPECT_DOUBLE_EQ(f.optimizer.lr(0), 0.2);
  EXPECT_DOUBLE_EQ(f.optimizer.lr(1), 0.025);
  EXPECT_DOUBLE_EQ(schedule.lr_at(5, 1), 0.1);
  EXPECT_EQ(schedule.steps(), 0);
}

TEST(ScheduleTest, GroupsAddedLaterFollow) {
  Fixture f;
  optim::StepLR schedule(f.optimizer, {.step_size = 2});
  schedule.step();
  f.optimizer.add_param_group({.parameters = {tg::ones({1})}, .lr = 1.0});
  EXPECT_EQ(schedule.lr_at(2, 2), 0.1);
  schedule.step();
  EXPECT_EQ(f.optimizer.lr(2), 0.1);
}

TEST(ScheduleTest, OneCycleTakesEachGroupsRateOrOneForAll) {
  Fixture f;
  const optim::OneCycleLR own(f.optimizer, {.total_steps = 10});
  EXPECT_DOUBLE_EQ(own.lr_at(2, 0), 0.8);
  EXPECT_DOUBLE_EQ(own.lr_at(2, 1), 0.1);
  EXPECT_EQ(own.lr_at(1000), own.lr_at(9));
  Fixture g;
  const optim::OneCycleLR one(g.optimizer, {.max_lr = 0.5, .total_steps = 10});
  EXPECT_DOUBLE_EQ(one.lr_at(2, 1), 0.5);
  for (const double pct : {0.0, 0.1, 1.0})
    for (std::int64_t total = 1; total < 12; ++total) {
      Fixture h;
      const optim::OneCycleLR short_one(h.optimizer, {.total_steps = total, .pct_start = pct});
      for (std::int64_t step = 0; step < 15; ++step) EXPECT_TRUE(std::isfinite(short_one.lr_at(step))) << pct << total;
    }
}

TEST(ScheduleTest, LambdaMayBeAnything) {
  Fixture f;
  optim::LambdaLR schedule(f.optimizer,
                           {.lr_lambda = [](std::int64_t step) { return step < 3 ? 1.0 / (1 + step) : -1; }});
  schedule.step();
  EXPECT_EQ(f.optimizer.lr(0), 0.4);
  schedule.step();
  EXPECT_THROW(schedule.step(), tg::ValueError);
  EXPECT_EQ(schedule.steps(), 2);
  EXPECT_NEAR(f.optimizer.lr(1), 0.1 / 3, 1e-15);
}

TEST(ScheduleTest, APictureOfIt) {
  Fixture f;
  const optim::LinearLR schedule(f.optimizer, {.start_factor = 0.0, .total_iters = 31});
  const std::string text = schedule.curve(32);
  EXPECT_EQ(text.substr(0, text.find('\n')), "LinearLR, 32 steps: first 0, highest 0.8 at step 31, last 0.8");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_EQ(text.substr(text.rfind('\n')), "\n ▁▂▃▄▅▆▇████████████████████████") << text;
  EXPECT_EQ(fmt::format("{}", schedule), schedule.to_string());
  const optim::ConstantLR zero(f.optimizer, {.factor = 0.0});
  EXPECT_NE(zero.curve(1).find("first 0, highest 0 at step 0, last 0"), std::string::npos);
  EXPECT_THROW((void)schedule.curve(0), tg::ValueError);
  EXPECT_THROW((void)schedule.curve(5, 2), tg::IndexError);
}

TEST(ScheduleTest, SettingsOfAnySizeHaveAPicture) {
  Fixture f;
  const std::vector<optim::Curve> curves = {optim::StepLROptions{.step_size = INT64_MAX},
                                            optim::MultiStepLROptions{.milestones = {INT64_MAX}},
                                            optim::LinearLROptions{.total_iters = INT64_MAX},
                                            optim::ConstantLROptions{.total_iters = INT64_MAX},
                                            optim::CosineAnnealingLROptions{.T_max = INT64_MAX},
                                            optim::CosineAnnealingWarmRestartsOptions{.T_0 = INT64_MAX, .T_mult = 1000},
                                            optim::CosineOptions{.total_steps = INT64_MAX}};
  for (const optim::Curve& curve : curves) {
    EXPECT_GT(curve.span, 1'000'000'000'000) << curve.name;
    EXPECT_NE(optim::Schedule(f.optimizer, curve).to_string().find(" steps: first "), std::string::npos) << curve.name;
  }
  EXPECT_THROW(optim::Curve(optim::StepLROptions{.step_size = INT64_MIN}), tg::ValueError);
}

TEST(ScheduleTest, EveryKindHasAPicture) {
  Fixture f;
  const std::vector<optim::Curve> curves = {optim::StepLROptions{.step_size = 5},
                                            optim::MultiStepLROptions{.milestones = {3}},
                                            optim::ExponentialLROptions{.gamma = 0.9},
                                            optim::LinearLROptions{},
                                            optim::ConstantLROptions{},
                                            optim::CosineAnnealingLROptions{.T_max = 10},
                                            optim::CosineAnnealingWarmRestartsOptions{.T_0 = 3, .T_mult = 2},
                                            optim::OneCycleLROptions{.total_steps = 10},
                                            optim::LambdaLROptions{.lr_lambda = [](std::int64_t) { return 1.0; }},
                                            optim::CosineOptions{.total_steps = 9}};
  for (const optim::Curve& curve : curves)
    EXPECT_NE(optim::Schedule(f.optimizer, curve).to_string().find(" steps: first "), std::string::npos) << curve.name;
}

TEST(ScheduleTest, Mistakes) {
  Fixture f;
  auto& o = f.optimizer;
  const double nan = std::nan("");
  EXPECT_THROW(optim::StepLR(o, {}), tg::ValueError);
  EXPECT_THROW(optim::StepLR(o, {.step_size = 2, .gamma = nan}), tg::ValueError);
  EXPECT_THROW(optim::MultiStepLR(o, {}), tg::ValueError);
  EXPECT_THROW(optim::MultiStepLR(o, {.milestones = {-1}}), tg::ValueError);
  EXPECT_THROW(optim::ExponentialLR(o, {}), tg::ValueError);
  EXPECT_THROW(optim::LinearLR(o, {.total_iters = 0}), tg::ValueError);
  EXPECT_THROW(optim::LinearLR(o, {.end_factor = nan}), tg::ValueError);
  EXPECT_THROW(optim::ConstantLR(o, {.factor = -1}), tg::ValueError);
  EXPECT_THROW(optim::CosineAnnealingLR(o, {}), tg::ValueError);
  EXPECT_THROW(optim::CosineAnnealingLR(o, {.T_max = 2, .eta_min = nan}), tg::ValueError);
  EXPECT_THROW(optim::CosineAnnealingWarmRestarts(o, {.T_0 = 2, .T_mult = 0}), tg::ValueError);
  EXPECT_THROW(optim::OneCycleLR(o, {}), tg::ValueError);
  EXPECT_THROW(optim::OneCycleLR(o, {.total_steps = 5, .pct_start = nan}), tg::ValueError);
  EXPECT_THROW(optim::OneCycleLR(o, {.total_steps = 5, .div_factor = 0}), tg::ValueError);
  EXPECT_THROW(optim::LambdaLR(o, {}), tg::ValueError);
  EXPECT_THROW(optim::SequentialLR(o, {}), tg::ValueError);
  EXPECT_THROW(optim::SequentialLR(o, {.schedules = {optim::LinearLROptions{}}, .milestones = {3}}), tg::ValueError);
  EXPECT_THROW(
      optim::SequentialLR(o, {.schedules = {optim::LinearLROptions{}, optim::StepLROptions{}}, .milestones = {3}}),
      tg::ValueError);
  EXPECT_THROW(
      optim::SequentialLR(o, {.schedules = {optim::LinearLROptions{}, optim::LinearLROptions{}}, .milestones = {0}}),
      tg::ValueError);
  EXPECT_THROW(optim::ReduceLROnPlateau(o, {.factor = 1.0}), tg::ValueError);
  EXPECT_THROW(optim::ReduceLROnPlateau(o, {.patience = -1}), tg::ValueError);
  EXPECT_THROW(optim::ReduceLROnPlateau(o, {.threshold = nan}), tg::ValueError);
  EXPECT_THROW(optim::ReduceLROnPlateau(o, {.threshold = 1.0}), tg::ValueError);
  EXPECT_EQ(o.lr(0), 0.8);
}

TEST(PlateauTest, NanIsNoImprovement) {
  Fixture f;
  optim::ReduceLROnPlateau plateau(f.optimizer, {.factor = 0.5, .patience = 1});
  for (const double value : {1.0, std::nan(""), std::nan("")}) plateau.step(value);
  EXPECT_EQ(plateau.best(), 1.0);
  EXPECT_EQ(f.optimizer.lr(0), 0.4);
}
