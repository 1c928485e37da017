#include <gtest/gtest.h>

#include <cmath>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace optim = tapegrad::optim;

namespace {

void set(const tg::Tensor& p, double value) {
  tg::NoGradGuard no_grad;
  tg::core::copy_into(p.mutable_array(), tg::full(p.shape(), value, p.dtype()).array());
}

}  // namespace

TEST(EmaTest, AveragesAndSwapsThemInAndOut) {
  const tg::Tensor p = tg::full({3}, 1.0, tg::float64).requires_grad_();
  optim::Ema ema({p}, 0.9);
  double expected = 1;
  for (const double value : {2.0, -1.0, 4.0}) {
    set(p, value);
    ema.update();
    expected = 0.9 * expected + 0.1 * value;
  }
  EXPECT_EQ(ema.updates(), 3);
  {
    const auto averaged = ema.averaged();
    EXPECT_NEAR(p.max().item(), expected, 1e-15);
    EXPECT_THROW(ema.update(), tg::Error);
    EXPECT_THROW((void)ema.averaged(), tg::Error);
    EXPECT_NEAR(p.min().item(), expected, 1e-15);
  }
  EXPECT_EQ(p.max().item(), 4.0);
  ema.update();
}

TEST(EmaTest, WeightsComeBackWhenAnExceptionFlies) {
  const tg::Tensor p = tg::ones({2, 3}).transpose(0, 1).detach().requires_grad_();
  optim::Ema ema({p}, 0.5);
  set(p, 3.0);
  ema.update();
  try {
    const auto averaged = ema.averaged();
    EXPECT_EQ(p.max().item(), 2.0);
    throw std::runtime_error("evaluation");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(p.min().item(), 3.0);
  EXPECT_TRUE(p.is_leaf() && p.requires_grad());
}

TEST(EmaTest, StateGoesRound) {
  const tg::Tensor p = tg::ones({2}).requires_grad_();
  optim::Ema ema({p}, 0.5), other({p}, 0.5);
  set(p, 3.0);
  ema.update();
  other.load_state_dict(ema.state_dict());
  EXPECT_EQ(other.updates(), 1);
  {
    const auto averaged = other.averaged();
    EXPECT_EQ(p.max().item(), 2.0);
    EXPECT_THROW(other.state_dict(), tg::Error);
  }
  EXPECT_THROW(other.load_state_dict({{"average.0", tg::ones({3})}}), tg::ValueError);
  EXPECT_EQ(other.updates(), 1);
}

TEST(EmaTest, Mistakes) {
  const tg::Tensor p = tg::ones({2}).requires_grad_();
  EXPECT_THROW(optim::Ema({}), tg::ValueError);
  EXPECT_THROW(optim::Ema({p}, 1.5), tg::ValueError);
  EXPECT_THROW(optim::Ema({p}, std::nan("")), tg::ValueError);
  EXPECT_THROW(optim::Ema({p * 2}), tg::ValueError);
  EXPECT_THROW(optim::Ema({tg::tensor({1})}), tg::ValueError);
  optim::Ema ema({p});
  {
    tg::NoGradGuard no_grad;
    p.mutable_array() = p.array().converted(tg::float64);
  }
  EXPECT_THROW(ema.update(), tg::DtypeError);
  EXPECT_THROW((void)ema.averaged(), tg::DtypeError);
}
