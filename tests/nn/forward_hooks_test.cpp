// Hooks on what modules give.
#include <gtest/gtest.h>

#include "autograd/expectations.hpp"

namespace tapegrad {
namespace {

using expectations::bytes_of;

TEST(ForwardHook, SeesEveryLayerOfATransformer) {
  manual_seed(1);
  nn::TransformerBlock block(8, 2);
  const nn::Linear linear(8, 8);
  const nn::LayerNorm norm(8);
  const nn::Dropout dropout(0.5);
  const nn::Embedding embedding(5, 8);
  const nn::MultiHeadAttention attention(8, 2);
  const nn::SelfAttention self(8);
  const nn::Sequential steps(nn::Linear(8, 8), nn::Linear(8, 8));
  int calls = 0;
  Tensor seen;
  const auto watch = [&](const nn::Module&, const Tensor& output) {
    ++calls;
    seen = output;
  };
  for (const nn::Module* module :
       {static_cast<const nn::Module*>(&block), static_cast<const nn::Module*>(&linear),
        static_cast<const nn::Module*>(&norm), static_cast<const nn::Module*>(&dropout),
        static_cast<const nn::Module*>(&embedding), static_cast<const nn::Module*>(&attention),
        static_cast<const nn::Module*>(&self), static_cast<const nn::Module*>(&steps)})
    module->register_forward_hook(watch);
  const Tensor x = randn({2, 3, 8});
  int expected = 0;
  for (const Tensor& output : {block(x), linear(x), linear.of_gelu(x), norm(x), embedding(tensor({1, 2})), attention(x),
                               self(x).output, steps(x)}) {
    (void)output;
    ++expected;
  }
  EXPECT_EQ(calls, expected);
  const Tensor output = dropout(x);
  EXPECT_TRUE(seen.body() == output.body());
}

TEST(ForwardHook, ReplacesAndIsDifferentiated) {
  nn::Linear linear(2, 2);
  nn::ForwardHookHandle twice = linear.register_forward_hook([](const nn::Module&, const Tensor& y) { return y * 2; });
  const nn::Linear copy = linear;  // handles share
  const Tensor x = ones({1, 2});
  const auto gradient = [&] {
    linear.zero_grad();
    copy(x).sum().backward();
    return linear.parameters()[0].grad().to_vector<double>()[0];
  };
  EXPECT_EQ(gradient(), 2);
  copy.register_forward_hook([](const nn::Module&, const Tensor& y) { return y * 3; });
  EXPECT_EQ(gradient(), 6);
  twice.remove();
  twice.remove();
  EXPECT_EQ(gradient(), 3);
  nn::ForwardHookHandle().remove();
}

TEST(ForwardHook, KeepsItsStateAndIsNotEmpty) {
  const nn::Linear linear(2, 2);
  std::vector<int> seen;
  linear.register_forward_hook([n = 0, &seen](const nn::Module&, const Tensor&) mutable { seen.push_back(++n); });
  for (int i = 0; i < 3; ++i) linear(ones({1, 2}));
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
  const auto refused = [&](auto hook) {
    expectations::expect_throws<ValueError>([&] { linear.register_forward_hook(hook); }, {"register_forward_hook"});
  };
  refused(std::function<Tensor(const nn::Module&, const Tensor&)>());
  refused(std::function<void(const nn::Module&, const Tensor&)>());
}

TEST(ForwardHook, RunsUnderTheNameOfItsModule) {
  struct Model : nn::Module {
    nn::Linear first = register_module("first", nn::Linear(2, 3));
  } model;
  model.first.register_forward_hook([](const nn::Module& module, const Tensor& y) {
    EXPECT_EQ(module.name(), "first");
    return reshape(y, {7});
  });
  expectations::expect_throws<ShapeError>([&] { model.first(ones({1, 2})); }, {"first: reshape"});
}

TEST(ForwardHook, ThatObservesChangesNothing) {
  manual_seed(2);
  nn::TransformerBlock block(8, 2);
  const Tensor x = randn({2, 3, 8});
  const std::string before = bytes_of(block(x).detach());
  nn::ForwardHookHandle handle;
  int calls = 0;
  handle = block.register_forward_hook([&](const nn::Module&, const Tensor&) {
    ++calls;
    handle.remove();
  });
  EXPECT_TRUE(bytes_of(block(x).detach()) == before);
  block(x);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tapegrad
