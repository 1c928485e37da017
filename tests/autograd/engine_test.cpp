// The tape and the sweep: what is computed, what is refused, what is freed.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <tapegrad/tapegrad.hpp>
#include <thread>
#include <vector>

#include "small_stack.hpp"

namespace tapegrad {
namespace {

using autograd::grad;
using autograd::record;

Tensor leaf(std::initializer_list<double> values) { return tensor(values, float64).requires_grad_(); }

/// The text of the GradError (or any other error of type E) that `action` must throw.
template <class E = GradError>
std::string text_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

bool names(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (text.find(word) == std::string::npos) {
      ADD_FAILURE() << "'" << word << "' is missing from: " << text;
      return false;
    }
  return true;
}

TEST(Engine, AMillionOperationsFitASmallStack) {
  const std::int64_t before = memory::live_entries();
  run_on_small_stack([] {
    Tensor x = leaf({1.0});
    Tensor y = x;
    for (int i = 0; i < 1000000; ++i) y = y + 1e-6;
    y.sum().backward();
    EXPECT_EQ(x.grad().item(), 1);
  });
  EXPECT_EQ(memory::live_entries(), before);
  run_on_small_stack([] {
    Tensor y = leaf({1.0});
    for (int i = 0; i < 1000000; ++i) y = -y;
  });
  EXPECT_EQ(memory::live_entries(), before);
}

TEST(Engine, SharingIsLinear) {
  Tensor x = leaf({1.0});
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = y + y;
  y.backward();
  EXPECT_EQ(x.grad().item(), std::ldexp(1.0, 60));
}

TEST(Engine, AValueUsedTwiceGetsBothGradients) {
  Tensor x = leaf({2.0});
  const Tensor y = 3 * x;
  (2 * y + 5 * y).backward();
  EXPECT_EQ(x.grad().item(), 21);
  Tensor z = leaf({1.0});
  const Tensor za = z * 1;
  (z * za + z * za + (z * z) * 1).backward();
  EXPECT_EQ(z.grad().item(), 6);
  EXPECT_EQ(grad({x + x}, {x})[0].item(), 2);
  EXPECT_EQ(grad({x * x}, {x})[0].item(), 4);
}

TEST(Engine, GradientsAccumulateUntilTheyAreCleared) {
  Tensor x = leaf({1.0, 2.0});
  x.sum().backward();
  const Tensor kept = x.grad();
  (3 * x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{4, 4}));
  EXPECT_EQ(kept.to_vector<double>(), (std::vector<double>{1, 1})) << "a gradient that was handed out doesn't change";
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
}

TEST(Engine, ASecondSweepNeedsTheGraph) {
  Tensor x = leaf({2.0});
  const Tensor y = (x * x).sum();
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_EQ(x.grad().item(), 8);
  names(text_of([&] { y.backward(); }), {"sum", "retain_graph", "again"});
  EXPECT_EQ(x.grad().item(), 8) << "the failed sweep changed a gradient";
}

TEST(Engine, ASweepOverASharedPartThatIsGoneChangesNothing) {
  Tensor x = leaf({2.0}), w = leaf({3.0});
  const Tensor shared = x * x;
  (shared * 2).sum().backward();
  EXPECT_EQ(x.grad().item(), 8);
  names(text_of([&] { (shared * w).sum().backward(); }), {"mul", "swept"});
  EXPECT_EQ(x.grad().item(), 8);
  EXPECT_FALSE(w.grad().defined());
}

TEST(Engine, NothingIsLeftAfterAStep) {
  Tensor w = leaf({0.5, -0.5});
  const std::int64_t before = memory::live_entries();
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = (exp(w) * w).sum();
    EXPECT_GT(memory::live_entries(), before);
    loss.backward();
  }
  EXPECT_EQ(memory::live_entries(), before);
  { const Tensor never_swept = tanh(w * w).mean(); }
  EXPECT_EQ(memory::live_entries(), before);
}

TEST(Engine, ARunningLossKeepsNoGraph) {
  Tensor w = leaf({0.5});
  const std::int64_t before = memory::live_entries();
  double total = 0;
  Tensor kept = zeros({}, float64);
  for (int step = 0; step < 5; ++step) {
    const Tensor loss = (w * w).sum();
    total += loss.item();
    kept = kept + loss.detach();
  }
  EXPECT_EQ(memory::live_entries(), before);
  EXPECT_FALSE(kept.requires_grad());
  EXPECT_DOUBLE_EQ(kept.item(), total);
}

TEST(Engine, GradientsGoToFloatingTensorsAlone) {
  EXPECT_THROW(tensor({1, 2}).requires_grad_(), DtypeError);
  EXPECT_THROW(tensor({true}).requires_grad_(), DtypeError);
  Tensor x = leaf({2.0});
  const Tensor mixed = x * tensor({3});
  mixed.sum().backward();
  EXPECT_EQ(x.grad().dtype(), float64);
  EXPECT_EQ(x.grad().item(), 3);
}

TEST(Engine, BackwardWantsAScalarOrAGradient) {
  Tensor x = leaf({1.0, 2.0});
  names(text_of<ShapeError>([&] { (x * 2).backward(); }), {"backward", "[2]"});
  names(text_of<ShapeError>([&] { (x * 2).backward(ones({3}, float64)); }), {"[2]", "[3]"});
  names(text_of<DtypeError>([&] { (x * 2).backward(ones({2})); }), {"float64", "float32"});
  EXPECT_FALSE(x.grad().defined());
  (x * 2).backward(tensor({1.0, 10.0}, float64));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 20}));
  EXPECT_THROW(zeros({1}).backward(), GradError);
}

TEST(Engine, BroadcastGradientsAreSummed) {
  Tensor row = leaf({1.0, 2.0, 3.0}), scalar = tensor(2.0, float64).requires_grad_();
  (ones({4, 2, 3}, float64) * row * scalar).sum().backward();
  EXPECT_EQ(row.grad().to_vector<double>(), (std::vector<double>{16, 16, 16}));
  EXPECT_EQ(scalar.grad().item(), 48);
}

TEST(Engine, NoGradGuardRecordsNothing) {
  Tensor x = leaf({1.0});
  {
    NoGradGuard no_grad;
    EXPECT_FALSE((x * 2).requires_grad());
    { NoGradGuard inner; }
    EXPECT_FALSE(autograd::grad_enabled());
    EXPECT_TRUE(x.requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
  try {
    NoGradGuard no_grad;
    throw 1;
  } catch (int) {
  }
  EXPECT_TRUE(autograd::grad_enabled());
}

TEST(Grad, ReturnsGradientsAndLeavesLeavesAlone) {
  Tensor x = leaf({3.0}), unused = leaf({1.0});
  const Tensor y = x * x;
  const Tensor z = exp(y * 0.1);
  const Tensors found = grad({z}, {x, y}, {.retain_graph = true});
  EXPECT_NEAR(found[1].item(), 0.1 * std::exp(0.9), 1e-12);
  EXPECT_NEAR(found[0].item(), 6 * 0.1 * std::exp(0.9), 1e-12);
  EXPECT_FALSE(x.grad().defined());
  names(text_of([&] { grad({z}, {x, unused}, {.retain_graph = true}); }), {"grad", "input 1", "allow_unused"});
  const Tensors some = grad({z}, {unused, x}, {.allow_unused = true});
  EXPECT_FALSE(some[0].defined());
  EXPECT_TRUE(some[1].defined());
  EXPECT_THROW(grad({zeros({1})}, {x}), GradError);
}

TEST(Grad, AnOutputCanBeAnInput) {
  Tensor x = leaf({3.0});
  EXPECT_EQ(grad({x}, {x})[0].item(), 1);
  const Tensor y = x * 2;
  EXPECT_EQ(grad({y}, {y})[0].item(), 1);
}

TEST(Grad, SeveralOutputsAddUp) {
  Tensor x = leaf({3.0});
  const Tensor y = x * 2, z = x * x;
  const Tensors found = grad({y, z}, {x}, {.grad_outputs = {tensor({10.0}, float64), tensor({1.0}, float64)}});
  EXPECT_EQ(found[0].item(), 26);
}

TEST(Grad, GradientsOfGradients) {
  Tensor x = leaf({2.0});
  Tensor d = x * x * x * x;
  for (const double expected : {32.0, 48.0, 48.0, 24.0}) {
    d = grad({d}, {x}, {.create_graph = true})[0];
    EXPECT_NEAR(d.item(), expected, 1e-10);
  }
  EXPECT_FALSE(x.grad().defined());
  const Tensor y = (x * x * x).sum();
  y.backward({.create_graph = true});
  EXPECT_TRUE(x.grad().requires_grad());
  EXPECT_EQ(grad({x.grad()}, {x})[0].item(), 12);
  x.set_grad({});  // it holds the graph, which holds x
}

Tensor with_closure(const Tensor& x, const char* name, Tensors gradients) {
  return record(name, ones({2}, float64), {x}, [gradients](const Tensor&) { return gradients; });
}

TEST(Record, AWrongGradientNamesTheOperation) {
  Tensor x = leaf({1.0, 2.0});
  names(text_of([&] { with_closure(x, "bad_count", {}).sum().backward(); }), {"bad_count", "1 inputs", "got 0"});
  names(text_of([&] { with_closure(x, "bad_shape", {ones({3}, float64)}).sum().backward(); }),
        {"bad_shape", "input 0", "[2]", "[3]"});
  names(text_of([&] { with_closure(x, "bad_dtype", {ones({2})}).sum().backward(); }),
        {"bad_dtype", "float64", "float32"});
  EXPECT_FALSE(x.grad().defined());
  with_closure(x, "undefined", {Tensor()}).sum().backward();
  EXPECT_FALSE(x.grad().defined()) << "an undefined gradient counts as zero";
}

TEST(Record, AClosureMayThrow) {
  Tensor x = leaf({1.0}), y = leaf({1.0});
  const auto broken = [](const Tensor& in) {
    return record("broken", in.detach().clone(), {in},
                  [](const Tensor&) -> Tensors { throw ValueError("broken closure"); });
  };
  names(text_of<ValueError>([&] { (broken(x) + y * 2).sum().backward(); }), {"broken closure"});
  EXPECT_FALSE(y.grad().defined());
  EXPECT_TRUE(autograd::grad_enabled());
  (y * 2).sum().backward();
  EXPECT_EQ(y.grad().item(), 2);
}

TEST(Record, AClosureMayReadTheResult) {
  Tensor x = leaf({2.0});
  const auto cube = [](const Tensor& in) {
    const Tensor value = [&] {
      NoGradGuard no_grad;
      return exp(in);
    }();
    return record("my_exp", value, {in}, [](const Tensor& g, const Tensor& result) { return Tensors{g * result}; });
  };
  const Tensor first = grad({cube(x)}, {x}, {.create_graph = true})[0];
  EXPECT_NEAR(first.item(), std::exp(2.0), 1e-12);
  EXPECT_NEAR(grad({first}, {x})[0].item(), std::exp(2.0), 1e-12);
}

void write(const Tensor& x) {
  NoGradGuard no_grad;
  x.mutable_array();
}

TEST(Versions, AChangedValueThatIsNeededIsAnError) {
  Tensor x = leaf({1.0, 2.0}), w = leaf({3.0, 4.0});
  const Tensor y = (x * w).sum();
  write(w);
  names(text_of([&] { y.backward(); }), {"mul", "changed in place", "[2]"});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Versions, AChangedConditionIsAnError) {
  const Tensor x = ones({2}).requires_grad_(), condition = tensor({true, false});
  const Tensor results[] = {where(condition, x, x * 2), where(condition, x, 0), where(condition, 0, x)};
  condition.mutable_array();
  for (const Tensor& y : results) EXPECT_THROW(y.sum().backward(), GradError);
}

TEST(Engine, NoGradientTimesAnInfiniteSlopeIsNone) {
  const Tensor x = tensor({0.0, 4.0}).requires_grad_(), mask = tensor({0.0, 1.0});
  for (const Tensor& y : {sqrt(x), pow(x, 0.5), pow(x, tensor({0.5, 0.5}))}) {
    x.set_grad({});
    (y * mask).sum().backward({.retain_graph = true});
    EXPECT_TRUE(equal(x.grad(), tensor({0.0, 0.25})));
    x.set_grad({});
    y.sum().backward();
    EXPECT_TRUE(equal(x.grad(), tensor({std::numeric_limits<double>::infinity(), 0.25})));
  }
}

TEST(Engine, NoGradientAtAPoleIsNone) {
  const Tensor ones = tensor({1.0, 1.0}), no = tensor({0.0, 1.0});
  const std::vector<std::pair<std::function<Tensor(const Tensor&)>, double>> functions = {
      {[](const Tensor& x) { return log(x); }, 0.25},
      {[](const Tensor& x) { return log1p(x - 1); }, 0.25},
      {[](const Tensor& x) { return rsqrt(x); }, -0.0625},
      {[](const Tensor& x) { return reciprocal(x); }, -0.0625},
      {[&](const Tensor& x) { return ones / x; }, -0.0625},
      {[](const Tensor& x) { return 1 / x; }, -0.0625},
      {[](const Tensor& x) { return pow(x, -1); }, -0.0625},
      {[&](const Tensor& x) { return pow(x, -ones); }, -0.0625},
      {[&](const Tensor& x) { return pow(x, x - 2 * ones); }, 16 * std::log(4.0) + 8},
      {[](const Tensor& x) { return pow(0, 3 * x - 11); }, 0}};
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const Tensor x = tensor({0.0, 4.0}).requires_grad_();
    const Tensor slope = grad({functions[i].first(x)}, {x}, {.grad_outputs = {no}, .create_graph = true})[0];
    EXPECT_TRUE(allclose(slope, tensor({0.0, functions[i].second}))) << "function " << i << ": " << slope.to_string();
  }
}

TEST(Versions, AViewOfAChangedValueIsOneToo) {
  Tensor x = leaf({1.0, 2.0});
  const Tensor factor = tensor({2.0, 5.0}, float64);
  const Tensor y = (x * slice(factor, 0, 0, 2)).sum();
  write(factor);
  names(text_of([&] { y.backward(); }), {"mul", "changed in place"});
}

TEST(Versions, AChangeThatNobodyReadsIsFine) {
  Tensor x = leaf({1.0, 2.0}), w = leaf({3.0, 4.0});
  const Tensor y = (x + w).sum();
  write(w);
  y.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST(Versions, AResultOnTheTapeCantBeWritten) {
  Tensor x = leaf({1.0});
  const Tensor y = x * 2;
  names(text_of([&] { y.mutable_array(); }), {"mul", "detach"});
  EXPECT_THROW(x.mutable_array(), GradError);
}

double trained(double start) {
  Tensor w = tensor({start, -start}, float64).requires_grad_();
  for (int step = 0; step < 200; ++step) {
    w.set_grad({});
    ((w - 3) * (w - 3)).sum().backward();
    w = (w.detach() - 0.1 * w.grad()).requires_grad_();
  }
  return w.select(0, 0).item() + w.select(0, 1).item();
}

TEST(Threads, TrainSeparateGraphsWithoutALock) {
  const std::int64_t before = memory::live_entries();
  double results[2] = {};
  std::thread first([&] { results[0] = trained(1); }), second([&] {
    NoGradGuard mine;
    autograd::set_grad_enabled(true);
    results[1] = trained(5);
  });
  first.join();
  second.join();
  EXPECT_NEAR(results[0], 6, 1e-9);
  EXPECT_NEAR(results[1], 6, 1e-9);
  EXPECT_TRUE(autograd::grad_enabled());
  EXPECT_EQ(memory::live_entries(), before);
}

}  // namespace
}  // namespace tapegrad
