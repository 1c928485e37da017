// Long chains in linear time, and many steps in constant memory.
#include <ctime>

#include "expectations.hpp"
#include "small_stack.hpp"

namespace tapegrad {
namespace {

/// Processor time of this thread, which other programs can't lengthen much.
double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Builds, sweeps (by backward and by grad) and destroys a chain.
double time_of_chain(int length) {
  const double start = seconds();
  Tensor x = tensor({1.0}, float64).requires_grad_();
  for (const bool by_grad : {false, true}) {
    Tensor y = x;
    for (int i = 0; i < length; ++i) y = y + 1e-6;
    if (by_grad)
      EXPECT_EQ(autograd::grad({y}, {x})[0].item(), 1);
    else
      y.backward();
  }
  EXPECT_EQ(x.grad().item(), 1);
  return seconds() - start;
}

TEST(Endurance, AChainTakesTimeLinearInItsLength) {
  run_on_small_stack([] {
    time_of_chain(1000);
    const double tenth = time_of_chain(100000), whole = time_of_chain(1000000);
    EXPECT_LT(whole, 30 * tenth);
  });
}

TEST(Endurance, NormalisationsTakeTimeLinearInTheLengthOfTheirRows) {
  const auto time_of = [](Tensor (*f)(const Tensor&), std::int64_t width) {
    const Tensor x = randn({64, width});
    double best = 1e9;
    for (int i = 0; i < 7; ++i) {
      const double start = seconds();
      f(x);
      best = std::min(best, seconds() - start);
    }
    return best;
  };
  const int threads = num_threads();
  set_num_threads(1);
  for (auto* f : {+[](const Tensor& x) { return softmax(x, -1); },
                  +[](const Tensor& x) { return layer_norm(x, {}, {}); }, +[](const Tensor& x) { return mean(x, -1); },
                  +[](const Tensor& x) { return var(x, -1); }, +[](const Tensor& x) { return x / amax(x, -1, true); }})
    EXPECT_LT(time_of(f, 8192), 3 * time_of(f, 4096));
  set_num_threads(threads);
}

TEST(Endurance, SharingIsLinearInEverySweep) {
  Tensor x = tensor({1.0}, float64).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = y + y;
  const double expected = std::ldexp(1.0, 60);
  EXPECT_EQ(autograd::grad({y}, {x}, {.create_graph = true})[0].item(), expected);
  EXPECT_EQ(autograd::jacobian([](const Tensor& in) { return in + in; }, y).item(), 2);
  EXPECT_EQ(autograd::trace(y).rows.size(), 61u);
  EXPECT_EQ(autograd::explain(y, x).reason, autograd::GradientReason::nonzero);
  y.backward();
  EXPECT_EQ(x.grad().item(), expected);
}

struct Mlp : nn::Module {
  nn::Linear in = register_module("in", nn::Linear(4, 16));
  nn::Linear out = register_module("out", nn::Linear(16, 2));
  Tensor operator()(const Tensor& x) { return out(dropout(gelu(in(x)), 0.1)); }
};

struct Numbers {
  std::int64_t bytes = memory::current(), entries = memory::live_entries(), asked = memory::system_allocations();
};

void expect_flat(const Numbers& before) {
  const Numbers after;
  EXPECT_EQ(after.bytes, before.bytes);
  EXPECT_EQ(after.entries, before.entries);
  EXPECT_EQ(after.asked, before.asked);
}

TEST(Endurance, TenThousandStepsKeepMemoryFlat) {
  manual_seed(1);
  Mlp model;
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  const Tensor x = randn({8, 4}), y = randn({8, 2});
  const auto step = [&] {
    optimizer.zero_grad();
    const Tensor loss = nn::mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    return loss.item();
  };
  const double first = step();
  for (int i = 0; i < 20; ++i) step();
  memory::reset_peak();
  step();
  const std::int64_t peak = memory::peak();
  const Numbers before;
  double last = 0;
  for (int i = 0; i < 10000; ++i) last = step();
  expect_flat(before);
  EXPECT_EQ(memory::peak(), peak);
  EXPECT_LT(last, first);
}

TEST(Endurance, ForwardPassesThatAreNeverSweptKeepMemoryFlat) {
  manual_seed(1);
  Mlp model;
  const Tensor x = randn({8, 4});
  for (int i = 0; i < 20; ++i) model(x);
  const Numbers before;
  for (int i = 0; i < 2000; ++i) EXPECT_TRUE(model(x).requires_grad());
  expect_flat(before);
}

}  // namespace
}  // namespace tapegrad
