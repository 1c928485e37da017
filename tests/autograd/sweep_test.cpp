// Sweeps that meet other sweeps, and what they leave behind.
#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>
#include <thread>
#include <vector>

namespace tapegrad {
namespace {

using autograd::grad;
using autograd::record;

Tensor leaf(double value) { return full({}, value, float64).requires_grad_(); }

TEST(Sweep, OneInsideAClosureOfAnotherHasItsOwnGradients) {
  Tensor w = leaf(2), x = w * 3;
  Tensor inner;
  Tensor y = record("inner_sweep", x.detach().clone(), {x}, [x, w, &inner](const Tensor& g) {
    GradModeGuard record_again(true);
    inner = grad({x * 10}, {w}, {.retain_graph = true})[0];
    return Tensors{g};
  });
  (y + x).backward();
  EXPECT_EQ(inner.item(), 30);
  EXPECT_EQ(w.grad().item(), 6);
}

TEST(Sweep, SeveralThreadsMaySweepOneKeptGraph) {
  Tensor w = leaf(2), f = w * w;
  std::vector<double> results(4);
  std::vector<std::thread> threads;
  for (double& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) result += grad({f}, {w}, {.retain_graph = true})[0].item();
    });
  for (std::thread& thread : threads) thread.join();
  for (double result : results) EXPECT_EQ(result, 800);
}

TEST(Sweep, AnInputThatIsNotReachedIsNoticedBeforeAnythingIsFreed) {
  Tensor x = leaf(3), z = leaf(1), y = x * x;
  EXPECT_THROW(grad({y}, {x, z}), GradError);
  y.backward();
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(Sweep, GradientsOfLeavesShareNoMemory) {
  Tensor a = leaf(1), b = leaf(2), seed = ones({}, float64);
  (a + b).backward(seed);
  a.grad().mutable_array();
  *a.grad().body()->array.data<double>() = 7;
  EXPECT_EQ(b.grad().item(), 1);
  EXPECT_EQ(seed.item(), 1);
}

TEST(Sweep, ATensorThatIsItsOwnGradientIsStillFreed) {
  const std::int64_t before = memory::current();
  {
    Tensor x = ones({100000}).requires_grad_();
    x.set_grad(x);
    x.set_grad({});
    x.backward(x);
  }
  EXPECT_EQ(memory::current(), before);
}

TEST(Record, AnUndefinedInputIsAnError) {
  const std::int64_t entries = memory::live_entries();
  const auto backward = [](const Tensor& g) { return Tensors{g, g}; };
  EXPECT_THROW(record("op", ones({}), {leaf(1), Tensor()}, backward), Error);
  EXPECT_THROW(record("op", ones({}, int64), {leaf(1), leaf(1)}, backward), DtypeError);
  EXPECT_EQ(memory::live_entries(), entries);
}

}  // namespace
}  // namespace tapegrad
