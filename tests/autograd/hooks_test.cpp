// Gradients that are watched, replaced, and kept.
#include "expectations.hpp"

namespace tapegrad {
namespace {

using autograd::grad;
using expectations::expect_near;
using expectations::expect_throws;

Tensor leaf(std::initializer_list<double> values) { return tensor(values, float64).requires_grad_(); }

TEST(HookState, StaysInOnePlace) {
  const Tensor x = ones({2}).requires_grad_();
  std::vector<int> seen;
  x.register_hook([n = 0, &seen](const Tensor&) mutable { seen.push_back(++n); });
  for (int i = 0; i < 3; ++i) (x * 2).sum().backward();
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
}

TEST(HookState, RefusesWhatCannotBeCalled) {
  const Tensor x = ones({2}).requires_grad_();
  expect_throws<ValueError>([&] { x.register_hook(std::function<Tensor(const Tensor&)>()); },
                            {"register_hook", "empty"});
  expect_throws<ValueError>([&] { x.register_hook(std::function<void(const Tensor&)>()); }, {"register_hook", "empty"});
  expect_throws<ValueError>([&] { x.register_hook(static_cast<void (*)(const Tensor&)>(nullptr)); }, {"empty"});
}

TEST(HookState, LeavesAreMetInTheSameOrder) {
  const auto order = [] {
    Tensors leaves;
    std::vector<int> seen;
    for (int i = 0; i < 40; ++i) {
      leaves.push_back(ones({1}).requires_grad_());
      leaves.back().register_hook([i, &seen](const Tensor&) { seen.push_back(i); });
    }
    Tensor total = leaves[0];
    for (int i = 1; i < 40; ++i) total = total + leaves[static_cast<std::size_t>(i)];
    total.sum().backward();
    return seen;
  };
  const std::vector<int> seen = order();
  for (int i = 0; i < 39; ++i) EXPECT_EQ(seen.at(static_cast<std::size_t>(i)), i == 38 ? 0 : 39 - i);
  EXPECT_EQ(order(), seen);
}

TEST(Hook, MustNotWriteIntoTheGradient) {
  const Tensor x = leaf({1}), y = leaf({2});
  x.register_hook([](const Tensor& g) { *g.mutable_array().data<double>() = 7; });
  expect_throws<GradError>([&] { (x + y).sum().backward(); }, {"register_hook", "must not write", "new one"});
  EXPECT_FALSE(y.grad().defined());
}

TEST(RetainGrad, KeepsTheGradientThatWasSetBefore) {
  const Tensor x = leaf({3}), y = x * x;
  y.set_grad(tensor({5.0}, float64));
  y.register_hook([](const Tensor&) {});
  EXPECT_EQ(y.grad().item(), 5);
  y.retain_grad();
  y.sum().backward();
  EXPECT_EQ(y.grad().item(), 6);
}

TEST(RetainGrad, KeepsAnIntermediateGradient) {
  Tensor x = leaf({1, 2});
  const Tensor y = x * x, z = y * 3;
  EXPECT_FALSE(y.retains_grad());
  y.retain_grad();
  EXPECT_TRUE(y.retains_grad());
  (z * z).sum().backward();
  expect_near(y.grad(), {18, 72}, 1e-12);
  expect_near(x.grad(), {36, 288}, 1e-12);
  EXPECT_FALSE(z.grad().defined());
}

TEST(RetainGrad, AccumulatesUntilItIsCleared) {
  Tensor x = leaf({3});
  const Tensor y = (x * x).retain_grad(), loss = (y * 2).sum();
  loss.backward({.retain_graph = true});
  loss.backward({.retain_graph = true});
  EXPECT_EQ(y.grad().item(), 4);
  y.set_grad({});
  EXPECT_FALSE(y.grad().defined());
  loss.backward();
  EXPECT_EQ(y.grad().item(), 2);
}

TEST(RetainGrad, SharesNoMemoryWithOtherGradients) {
  Tensor x = leaf({3});
  const Tensor y = (x + 1).retain_grad(), z = (y + 1).retain_grad();
  (z * 2).sum().backward();
  y.grad().mutable_array();
  *y.grad().body()->array.data<double>() = 7;
  EXPECT_EQ(x.grad().item(), 2);
  EXPECT_EQ(z.grad().item(), 2);
}

TEST(RetainGrad, IsForBackwardAlone) {
  Tensor x = leaf({3});
  const Tensor y = (x * x).retain_grad();
  grad({y.sum()}, {x}, {.retain_graph = true});
  EXPECT_FALSE(y.grad().defined());
  x.retain_grad();
  EXPECT_FALSE(x.retains_grad());
  expect_throws<GradError>([] { ones({2}).retain_grad(); }, {"retain_grad", "requires_grad_()", "[2]"});
}

TEST(RetainGrad, LeavesNothingBehind) {
  const std::int64_t entries = memory::live_entries(), bytes = memory::current();
  {
    Tensor x = ones({1000}).requires_grad_();
    const Tensor y = (x * x).retain_grad();
    y.register_hook([](const Tensor& g) { return g * 2; });
    y.sum().backward();
  }
  EXPECT_EQ(memory::live_entries(), entries);
  EXPECT_EQ(memory::current(), bytes);
}

TEST(Hook, ObservesTheCompleteGradientOnce) {
  Tensor x = leaf({2});
  const Tensor y = x * 3;
  std::vector<double> seen;
  y.register_hook([&](const Tensor& g) { seen.push_back(g.item()); });
  (y * 2 + y * 5).sum().backward();
  EXPECT_EQ(seen, std::vector<double>{7});
  EXPECT_EQ(x.grad().item(), 21);
}

TEST(Hook, ReplacesAGradientInBackwardAndGrad) {
  Tensor x = leaf({2});
  const Tensor y = (x * 3).retain_grad(), loss = (y * 2).sum();
  y.register_hook([](const Tensor& g) { return g * 10; });
  x.register_hook([](const Tensor& g) { return g + 1; });
  loss.backward({.retain_graph = true});
  EXPECT_EQ(y.grad().item(), 20);
  EXPECT_EQ(x.grad().item(), 61);
  const Tensors found = grad({loss}, {x, y});
  EXPECT_EQ(found[0].item(), 61);
  EXPECT_EQ(found[1].item(), 20);
}

TEST(Hook, OfALeafSeesTheSweepNotTheSumOverSweeps) {
  Tensor x = leaf({2});
  std::vector<double> seen;
  x.register_hook([&](const Tensor& g) {
    seen.push_back(g.item());
    return Tensor();
  });
  (x + x).sum().backward();
  (x * x).sum().backward();
  EXPECT_EQ(seen, (std::vector<double>{2, 4}));
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(Hook, IsRemovedByItsHandle) {
  Tensor x = leaf({2});
  HookHandle first = x.register_hook([](const Tensor& g) { return g * 2; });
  HookHandle second = x.register_hook([](const Tensor& g) { return g + 1; });
  const auto gradient = [&] { return grad({x.sum()}, {x})[0].item(); };
  EXPECT_EQ(gradient(), 3);
  first.remove();
  first.remove();
  EXPECT_EQ(gradient(), 2);
  second.remove();
  EXPECT_EQ(gradient(), 1);
  HookHandle late;
  {
    late = leaf({1}).register_hook([](const Tensor&) {});
  }
  late.remove();
  HookHandle().remove();
}

TEST(Hook, MayRemoveItself) {
  Tensor x = leaf({2});
  int calls = 0;
  HookHandle handle;
  handle = x.register_hook([&](const Tensor&) {
    ++calls;
    handle.remove();
  });
  (x * 2).sum().backward();
  (x * 2).sum().backward();
  EXPECT_EQ(calls, 1);
}

TEST(Hook, MayRemoveAndAddOthers) {
  Tensor x = leaf({2});
  std::string calls;
  HookHandle second;
  HookHandle first = x.register_hook([&](const Tensor&) {
    calls += "1";
    second.remove();
    x.register_hook([&](const Tensor&) { calls += "3"; });
  });
  second = x.register_hook([&](const Tensor&) { calls += "2"; });
  (x * 2).sum().backward();
  EXPECT_EQ(calls, "1");
  first.remove();
  (x * 2).sum().backward();
  EXPECT_EQ(calls, "13");
}

TEST(Hook, MayLetGoOfItsTensor) {
  Tensor x = leaf({2}), same = x;
  x.register_hook([&](const Tensor& g) {
    x = Tensor();
    return g * 2;
  });
  (x * 3).sum().backward();
  EXPECT_FALSE(x.defined());
  EXPECT_EQ(same.grad().item(), 6);
}

TEST(Hook, MustKeepShapeAndDtype) {
  Tensor x = leaf({2, 3});
  HookHandle handle = x.register_hook([](const Tensor& g) { return g.sum(); });
  expect_throws<ShapeError>([&] { (x * 2).sum().backward(); }, {"register_hook", "[2]", "[]"});
  EXPECT_FALSE(x.grad().defined());
  handle.remove();
  x.register_hook([](const Tensor& g) { return g.to(float32); });
  expect_throws<DtypeError>([&] { (x * 2).sum().backward(); }, {"register_hook", "float64", "float32"});
  expect_throws<GradError>([] { ones({2}).register_hook([](const Tensor&) {}); }, {"register_hook", "requires"});
}

TEST(Hook, IsDifferentiatedWhenTheSweepIsRecorded) {
  Tensor x = leaf({3});
  const Tensor y = x * x;
  HookHandle hook = y.register_hook([](const Tensor& g) { return g * g; });  // the gradient of y^2, 2y, becomes 4y^2
  const Tensor first = grad({(y * y).sum()}, {x}, {.create_graph = true})[0];
  EXPECT_NEAR(first.item(), 4 * 81 * 2 * 3, 1e-9);  // 8 x^5
  hook.remove();
  EXPECT_NEAR(grad({first.sum()}, {x})[0].item(), 40 * std::pow(3, 4), 1e-9);
}

TEST(Hook, MaySweepAnotherGraph) {
  Tensor x = leaf({3}), w = leaf({5});
  const Tensor other = (w * w).sum();
  x.register_hook([&](const Tensor&) { other.backward(); });
  (x * 2).sum().backward();
  EXPECT_EQ(w.grad().item(), 10);
  EXPECT_EQ(x.grad().item(), 2);
}

}  // namespace
}  // namespace tapegrad
