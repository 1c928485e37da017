// The first value that is not finite.
#include <cstdlib>

#include "expectations.hpp"

namespace tapegrad {
namespace {

using autograd::AnomalyGuard;
using expectations::expect_throws;
using expectations::kInf;
using expectations::kNaN;

Tensor leaf(std::initializer_list<double> values) { return tensor(values, float64).requires_grad_(); }

TEST(Anomaly, NamesTheFirstOperationElementAndShapes) {
  const AnomalyGuard guard;
  const Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, -1.0, 5.0}}, float64);
  expect_throws<NonFiniteError>([&] { exp(log(x)).sum(); },
                                {"log: ", "nan at [1, 1]", "result [2, 3]", "inputs [2, 3]"});
  expect_throws<NonFiniteError>(
      [&] {
        ones({2, 1}, float64) / zeros({3}, float64);
      },
      {"inf at [0, 0]", "result [2, 3]", "[2, 1], [3]"});
  expect_throws<NonFiniteError>([&] { tensor({1.0, kInf}, float64) * 2; }, {"inf at [1]", "(already not finite)"});
  EXPECT_EQ((x * 2).sum().item(), 28);
}

TEST(Anomaly, IsOffOutsideTheGuard) {
  {
    const AnomalyGuard guard;
    EXPECT_TRUE(autograd::anomaly_enabled());
    {
      const AnomalyGuard off(false);
      EXPECT_EQ(log(tensor({0.0}, float64)).item(), -kInf);
    }
    EXPECT_TRUE(autograd::anomaly_enabled());
  }
  EXPECT_FALSE(autograd::anomaly_enabled());
  EXPECT_EQ(log(tensor({0.0}, float64)).item(), -kInf);
}

TEST(Anomaly, NamesTheModule) {
  struct Inner : nn::Module {
    Tensor operator()(const Tensor& x) {
      const auto here = scope();
      return sqrt(x);
    }
  };
  struct Outer : nn::Module {
    Inner inner = register_module("inner", Inner());
    Tensor operator()(const Tensor& x) {
      const auto here = scope();
      return inner(x * 1) * 2;
    }
  };
  struct Root : nn::Module {
    Outer outer = register_module("outer", Outer());
  } root;
  const AnomalyGuard guard;
  expect_throws<NonFiniteError>([&] { root.outer(leaf({1, -1})); }, {"outer.inner: sqrt: ", "nan at [1]"});
  const Tensor y = root.outer(leaf({4, 0}));
  expect_throws<NonFiniteError>([&] { y.sum().backward(); },
                                {"outer.inner: sqrt: ", "gradient for input 0", "inf at [1]", "recorded as number",
                                 "in outer.inner", "result [2] from inputs [2]"});
}

TEST(Anomaly, WatchesSweeps) {
  Tensor x = leaf({0, 1});
  const Tensor y = sqrt(x).sum();
  const AnomalyGuard guard;
  expect_throws<NonFiniteError>([&] { y.backward({.retain_graph = true}); }, {"sqrt: ", "inf at [0]"});
  expect_throws<NonFiniteError>([&] { autograd::grad({y}, {x}, {.retain_graph = true}); }, {"sqrt: ", "inf at [0]"});
  EXPECT_FALSE(x.grad().defined());
  expect_throws<NonFiniteError>(
      [&] {
        (x * 2).backward(tensor({1.0, kNaN}, float64));
      },
      {"mul", "the gradient of its result", "nan at [1]"});
  x.register_hook([](const Tensor& g) { return g / 0.0; });
  expect_throws<NonFiniteError>([&] { (x * 2).sum().backward(); }, {"inf"});
}

TEST(Anomaly, LetsATransformerPass) {
  const AnomalyGuard guard;
  manual_seed(1);
  nn::TransformerBlock block(8, 2, {.dropout = 0.1});
  const Tensor x = randn({2, 4, 8}).requires_grad_();
  block(x, {.is_causal = true}).sum().backward();
  const Tensor mask = tensor({{1, 0, 0}, {0, 0, 0}, {1, 1, 0}});
  const Tensor q = randn({3, 2}).requires_grad_();
  nn::scaled_dot_product_attention(q, q, q, {.mask = mask}).output.sum().backward();
  nn::scaled_dot_product_attention(q, q, q, {.mask = mask, .need_weights = false}).output.sum().backward();
  Tensor zero = leaf({0, 0});
  norm(zero).backward();
  std::ignore = autograd::gradgradcheck([](const Tensors& in) { return norm(in[0]); }, {randn({3}, float64)});
}

TEST(AnomalyDeathTest, TheEnvironmentTurnsItOn) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("TAPEGRAD_ANOMALY", "1", 1);
  EXPECT_EXIT(
      {
        try {
          log(tensor({0.0}, float64));
        } catch (const NonFiniteError&) {
          std::exit(7);
        }
        std::exit(1);
      },
      testing::ExitedWithCode(7), "");
  unsetenv("TAPEGRAD_ANOMALY");
}

}  // namespace
}  // namespace tapegrad
