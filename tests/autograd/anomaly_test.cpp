// The first value that is not finite.
#include <cstdlib>
#include <functional>

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

/// The words of an error that names a line of this file.
std::string at(int line) { return std::string(" at ") + __FILE__ + ":" + std::to_string(line); }

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const NonFiniteError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// " at file:line" as far as it names a line of this file, else the message.
std::string line_in(const std::string& message) {
  const std::size_t begin = message.find(std::string(" at ") + __FILE__);
  return begin == message.npos ? message : message.substr(begin, message.find_first_of(",; ", begin + 4) - begin);
}

TEST(Anomaly, NamesTheLineOfTheCall) {
  const AnomalyGuard guard;
  const Tensor x = tensor({1.0, -1.0}), y = zeros({2});
  const auto line_of = [](const std::function<void()>& f) { return line_in(message_of(f)); };
  EXPECT_EQ(line_of([&] { log(x); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { x / y; }), at(__LINE__));
  EXPECT_EQ(line_of([&] { 2.0 / y; }), at(__LINE__));
  EXPECT_EQ(line_of([&] { x.sqrt(); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { (x * kInf).sum(); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { norm(x * 1e30f * 1e30f); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { cat({x, y * kNaN}); }), at(__LINE__));
  const Tensor nan = [] {
    const AnomalyGuard off(false);
    return log(tensor({-1.0, -2.0}));
  }();
  EXPECT_EQ(line_of([&] { cat({x, nan}); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { stack({x, nan}); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { einsum("i,i", x, nan); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { std(nan); }), at(__LINE__)) << "a composed operation";
  EXPECT_EQ(line_of([&] { nn::mse_loss(x, nan); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { nn::Linear(2, 1)(nan); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { nn::GELU()(nan); }), at(__LINE__));
  EXPECT_EQ(line_of([&] { nn::Sequential(nn::Linear(2, 1), nn::ReLU())(nan); }), at(__LINE__));
  const auto own = [&] { autograd::record("own", nan.array(), {x}, [](const Tensor& g) { return Tensors{g}; }); };
  EXPECT_EQ(line_of(own), at(__LINE__ - 1));
}

TEST(Anomaly, NamesTheLineInAnExpressionOfSeveral) {
  const AnomalyGuard guard;
  const Tensor x = tensor({1.0, -1.0}), y = ones({2});
  const int first = __LINE__ + 1;
  const auto whole = [&] {
    exp(maximum(x,  //
                sqrt(x)));
  };
  EXPECT_EQ(line_in(message_of(whole)), at(first + 2));
  const auto outer = [&] {
    log(minimum(exp(x) - 3,  //
                exp(y)));
  };
  EXPECT_EQ(line_in(message_of(outer)), at(first + 6));
}

TEST(Anomaly, NamesTheLineThatRecorded) {
  const AnomalyGuard guard;
  const Tensor x = leaf({0, 1});
  const auto line_of = [](const Tensor& y) { return line_in(message_of([&] { y.backward(); })); };
  EXPECT_EQ(line_of(sqrt(x).sum()), at(__LINE__));
  EXPECT_EQ(line_of((x.sqrt() * 2).sum()), at(__LINE__));
  EXPECT_EQ(line_of(pow(x, 0.5).sum()), at(__LINE__));
  const Tensor own = autograd::record("own", x.array(), {x}, [](const Tensor& g) { return Tensors{g * kInf}; });
  EXPECT_EQ(line_of(own.sum()), at(__LINE__ - 1));
  const auto inside = [](const Tensors& in) { return sqrt(in[0]) * 2; };
  EXPECT_EQ(line_of(autograd::checkpoint(inside, {x}).sum()), at(__LINE__ - 1));
}

TEST(Anomaly, NamesNoOlderLine) {
  const AnomalyGuard guard;
  const std::function<Tensor(const Tensor&)> f = tapegrad::log;
  const Tensor x = exp(tensor({0.0})) - 2;
  const std::string unknown = message_of([&] { f(x); });
  EXPECT_EQ(unknown.find(".h"), std::string::npos) << unknown;
  EXPECT_EQ(unknown.find(".cpp"), std::string::npos) << unknown;
  EXPECT_EQ(autograd::UserLine::current().line(), 0u);
  EXPECT_EQ(message_of([&] { exp(f(x)); }), unknown);
}

/// Operands borrow their tensors: copies in closures must not.
TEST(Anomaly, OperandsThatAreCopiedOwnTheirTensors) {
  Tensor x = leaf({1, 2});
  Tensor y = (x * 3) * x;  // saves the first product, which nobody else holds
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 12}));
  const auto copy = [](const Operand& borrowed) { return Operand(borrowed); };
  const Operand owned = copy(ones({2}) * 4);
  EXPECT_EQ(owned.to_vector<double>(), (std::vector<double>{4, 4}));
}

TEST(Anomaly, OperandsThatAreMovedFromKeepWhatTheyBorrow) {
  const Tensor x = ones({2});
  const auto returned = [](Operand operand) -> Tensor { return operand; };
  const auto moved = [](Operand operand) { return Tensor(std::move(operand)); };
  {
    Tensor a = returned(x), b = moved(x), c = Operand(x), d;
    d = Operand(x);
    Tensors list;
    list.emplace_back(Operand(x));
    EXPECT_EQ(x.body()->references.value(), 6);
  }
  EXPECT_EQ(x.body()->references.value(), 1);
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

/// Exits with 7 if the error names the line.
[[noreturn]] void exit_by_the_line_of_a_fault() {
  try {
    log(tensor({0.0}, float64));
  } catch (const NonFiniteError& error) {
    std::exit(line_in(error.what()) == at(__LINE__ - 2) ? 7 : 8);
  }
  std::exit(1);
}

TEST(AnomalyDeathTest, TheEnvironmentTurnsItOn) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("TAPEGRAD_ANOMALY", "1", 1);
  EXPECT_EXIT(exit_by_the_line_of_a_fault(), testing::ExitedWithCode(7), "");
  unsetenv("TAPEGRAD_ANOMALY");
}

}  // namespace
}  // namespace tapegrad
