#include <gtest/gtest.h>

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
}
