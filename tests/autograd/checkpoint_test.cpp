// Checkpoints: the bits of the plain computation, and less memory.
#include "expectations.hpp"

namespace tapegrad {
namespace {

using autograd::checkpoint;
using autograd::grad;
using expectations::bytes_of;
using expectations::expect_throws;

/// A residual block with dropout; `shared` is used in every block and outside of them.
struct Block {
  Tensor up, down, shared;
  explicit Block(std::int64_t width, Tensor used_everywhere)
      : up(randn({4 * width, width}).requires_grad_()),
        down(randn({width, 4 * width}).requires_grad_()),
        shared(std::move(used_everywhere)) {}
  Tensor operator()(const Tensors& in) const {
    return in[0] + dropout(linear(gelu(linear(layer_norm(in[0], shared, {}), up)), down), 0.25) * in[0];
  }
};

struct Model {
  Tensor shared;
  std::vector<Block> blocks;
  Model(int depth, std::int64_t width) : shared(randn({width}).requires_grad_()) {
    for (int i = 0; i < depth; ++i) blocks.emplace_back(width, shared);
  }
  Tensor loss(Tensor x, bool checkpointed) const {
    x = x * shared;
    for (const Block& block : blocks) x = checkpointed ? checkpoint(block, {x}) : block({x});
    return (x * shared).sum();
  }
  Tensors parameters() const {
    Tensors list = {shared};
    for (const Block& block : blocks) list.insert(list.end(), {block.up, block.down});
    return list;
  }
};

std::vector<std::string> bytes_of_all(const Tensors& tensors) {
  std::vector<std::string> list;
  for (const Tensor& tensor : tensors) list.push_back(bytes_of(tensor));
  return list;
}

TEST(Checkpoint, GivesTheBitsOfThePlainComputation) {
  manual_seed(3);
  const Model model(4, 8);
  Tensor x = randn({16, 8}).requires_grad_();
  std::vector<std::string> results[2];
  RandomState after[2];
  for (const bool checkpointed : {false, true}) {
    manual_seed(4);
    Tensors all = {x};
    for (const Tensor& parameter : model.parameters()) all.push_back(parameter);
    for (const Tensor& leaf : all) leaf.set_grad({});
    const Tensor loss = model.loss(x, checkpointed);
    after[checkpointed] = random_state();
    loss.backward({.retain_graph = true});
    EXPECT_EQ(random_state(), after[checkpointed]);
    Tensors gradients = {loss.detach()};
    for (const Tensor& leaf : all) gradients.push_back(leaf.grad());
    for (const Tensor& gradient : grad({loss}, all)) gradients.push_back(gradient);
    results[checkpointed] = bytes_of_all(gradients);
  }
  EXPECT_EQ(after[0], after[1]);
  ASSERT_EQ(results[0].size(), results[1].size());
  for (std::size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(results[0][i] == results[1][i]) << "result " << i;
}

TEST(Checkpoint, SavesMemory) {
  manual_seed(3);
  const Model model(8, 32);
  const Tensor x = randn({512, 32});
  std::int64_t kept[2], most[2];
  const std::int64_t entries = memory::live_entries();
  for (const bool checkpointed : {false, true}) {
    for (const Tensor& parameter : model.parameters()) parameter.set_grad(zeros_like(parameter.detach()));
    const std::int64_t before = memory::current();
    memory::reset_peak();
    const Tensor loss = model.loss(x, checkpointed);
    kept[checkpointed] = memory::current() - before;
    loss.backward();
    most[checkpointed] = memory::peak() - before;
  }
  EXPECT_LT(kept[1] * 8, kept[0]);
  EXPECT_LT(most[1] * 3, most[0]);
  EXPECT_EQ(memory::live_entries(), entries);
}

TEST(Checkpoint, GivesGradientsToCapturedResults) {
  Tensor w = tensor({2.0}, float64).requires_grad_(), x = tensor({3.0}, float64).requires_grad_();
  const Tensor middle = w * w;  // on the tape, not an input
  const auto f = [&](const Tensors& in) { return in[0] * middle * w; };
  (checkpoint(f, {x * 1}) * middle).sum().backward();  // x w^5
  EXPECT_EQ(w.grad().item(), 3 * 5 * 16);
  EXPECT_EQ(x.grad().item(), 32);
}

TEST(Checkpoint, CanBeNestedAndSweptTwice) {
  Tensor x = tensor({0.5}, float64).requires_grad_();
  const auto inner = [](const Tensors& in) { return exp(in[0]) * in[0]; };
  const auto outer = [&](const Tensors& in) { return checkpoint(inner, {in[0] * 2}) * in[0]; };
  const Tensor y = checkpoint(outer, {x});  // 2 x^2 e^2x
  const Tensor first = grad({y.sum()}, {x}, {.create_graph = true})[0];
  EXPECT_NEAR(first.item(), std::exp(1.0) * 3, 1e-12);                         // (4x + 4x^2) e^2x
  EXPECT_NEAR(grad({first.sum()}, {x})[0].item(), std::exp(1.0) * 14, 1e-12);  // (4 + 16x + 8x^2) e^2x
  EXPECT_TRUE(autograd::gradgradcheck([&](const Tensors& in) { return checkpoint(outer, in); }, {x.detach()}));
}

TEST(Checkpoint, OnlyCallsWithoutRecording) {
  int calls = 0;
  const auto f = [&](const Tensors& in) {
    ++calls;
    EXPECT_EQ(autograd::grad_enabled(), calls != 1);
    return in[0] * 2;
  };
  Tensor x = ones({2}).requires_grad_();
  {
    const NoGradGuard no_grad;
    EXPECT_FALSE(checkpoint(f, {x}).requires_grad());
  }
  EXPECT_FALSE(checkpoint(f, {ones({2})}).requires_grad());
  checkpoint(f, {x}).sum().backward();
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(autograd::grad_enabled());
}

TEST(Checkpoint, CallsHooksOnce) {
  Tensor w = tensor({2.0}, float64).requires_grad_();
  const Tensor x = w * 3;
  int of_leaf = 0, of_input = 0;
  w.register_hook([&](const Tensor&) { ++of_leaf; });
  x.register_hook([&](const Tensor&) { ++of_input; });
  checkpoint([&](const Tensors& in) { return in[0] * in[0] * w; }, {x}).sum().backward();
  EXPECT_EQ(of_leaf, 1);
  EXPECT_EQ(of_input, 1);
  EXPECT_EQ(w.grad().item(), 9 * 3 * 4);
}

TEST(Checkpoint, NoticesWhatChangedInBetween) {
  Tensor w = ones({2}).requires_grad_(), other = ones({2}).requires_grad_();
  const Tensor y = checkpoint([&](const Tensors& in) { return in[0] * w; }, {ones({2})}).sum();
  {
    const NoGradGuard no_grad;
    w.mutable_array();
  }
  expect_throws<GradError>([&] { y.backward(); }, {"checkpoint", "changed"});
  bool first = true;
  const auto fickle = [&](const Tensors& in) { return in[0] * (std::exchange(first, false) ? w : other); };
  const Tensor z = checkpoint(fickle, {ones({2})}).sum();
  expect_throws<GradError>([&] { z.backward(); }, {"checkpoint", "the same tensors"});
  EXPECT_FALSE(w.grad().defined());
}

}  // namespace
}  // namespace tapegrad
