// What gradcheck itself must do: find faults, name them, and leave everything as it was.
#include <gtest/gtest.h>

#include <cmath>
#include <tapegrad/tapegrad.hpp>

namespace tapegrad {
namespace {

using autograd::Fault;
using autograd::gradcheck;
using autograd::GradcheckReport;
using autograd::gradgradcheck;
using autograd::record;

Tensor values(std::initializer_list<double> list) { return tensor(list, float64); }

/// A function with a right value and a gradient made by `backward(g, x)`.
template <class Value, class Backward>
auto falsified(Value value, Backward backward) {
  return [=](const Tensors& in) {
    const Tensor x = in[0];
    const Tensor result = [&] {
      NoGradGuard no_grad;
      return value(x);
    }();
    return record("falsified", result, {x}, [=](const Tensor& g) { return Tensors{backward(g, x)}; });
  };
}

Tensor cube(const Tensor& x) { return x * x * x; }
Tensor rows_of(const Tensor& x) { return expand(x, {4, 3}) * 1; }

void expect_words(const GradcheckReport& report, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(report.to_string().find(word), std::string::npos) << word << ": " << report.to_string();
}

TEST(Gradcheck, PassesARightFunction) {
  const auto f = [](const Tensors& in) { return softmax(matmul(in[0], tanh(in[1])), -1); };
  const auto report = gradcheck(f, {randn({3, 4}, float64), randn({4, 5}, float64)});
  EXPECT_TRUE(report) << report.to_string();
  EXPECT_LT(report.max_error(), 1e-6);
  EXPECT_EQ(report.compared, 15 * 32);
  EXPECT_EQ(report.failed, 0);
}

TEST(Gradcheck, NamesTheWorstElement) {
  const auto wrong = falsified(cube, [](const Tensor& g, const Tensor& x) { return g * 3 * x; });
  const auto report = gradcheck(wrong, {values({1, 2})});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.fault, Fault::value);
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].element, "[1]");
  EXPECT_NEAR(report.rows[0].analytic, 6, 1e-6);
  EXPECT_NEAR(report.rows[0].numeric, 12, 1e-6);
  expect_words(report, {"falsified", "input 0", "[1]", "analytic 6", "numeric 12", "tolerance", "relative", "1 of 4"});
}

TEST(Gradcheck, PutsTheWorstFirstAndKeepsAHandful) {
  const auto wrong = falsified(cube, [](const Tensor& g, const Tensor& x) { return g * x; });
  const auto report = gradcheck(wrong, {values({1, 2, 3, 4, 5, 6, 7})});
  EXPECT_EQ(report.failed, 7);
  ASSERT_EQ(report.rows.size(), 5u);
  for (std::size_t i = 1; i < report.rows.size(); ++i)
    EXPECT_GE(report.rows[i - 1].difference / report.rows[i - 1].tolerance,
              report.rows[i].difference / report.rows[i].tolerance);
  expect_words(report, {"2 more"});
}

TEST(Gradcheck, RecognisesSimplePatterns) {
  const Tensor x = values({1, 2, 4});
  const auto times = [&](double factor) {
    return gradcheck(falsified(cube, [factor](const Tensor& g, const Tensor& v) { return g * 3 * v * v * factor; }),
                     {x});
  };
  expect_words(times(2), {"hint", "twice"});
  expect_words(times(0.5), {"half"});
  expect_words(times(-1), {"negative"});
  expect_words(times(3), {"3", "batch size"});
  expect_words(times(0), {"zero everywhere"});
  expect_words(times(1.7), {"1.7 times"});
  const auto swapped =
      falsified(cube, [](const Tensor& g, const Tensor& v) { return transpose(g * 3 * v * v, 0, 1).contiguous(); });
  expect_words(gradcheck(swapped, {randn({3, 3}, float64)}), {"transposed"});
  const auto unsummed = falsified(rows_of, [](const Tensor& g, const Tensor&) { return g.select(0, 0); });
  expect_words(gradcheck(unsummed, {x}), {"broadcast"});
}

TEST(Gradcheck, TellsFaultsApart) {
  const Tensor x = values({1, 2});
  const auto fault = [&](auto f) { return gradcheck(f, {x}).fault; };
  EXPECT_EQ(fault(falsified(cube, [](const Tensor&, const Tensor&) { return ones({3}, float64); })), Fault::shape);
  EXPECT_EQ(fault(falsified(cube, [](const Tensor&, const Tensor&) { return Tensor(); })), Fault::missing_gradient);
  EXPECT_EQ(fault([](const Tensors& in) { return in[0].detach() * 2; }), Fault::missing_gradient);
  EXPECT_EQ(fault(falsified(cube, [](const Tensor& g, const Tensor&) { return g / 0.0; })), Fault::non_finite);
  EXPECT_EQ(fault([](const Tensors& in) {
              return dropout(in[0] * ones({40, 2}, float64), 0.5);
            }),
            Fault::not_deterministic);
  EXPECT_EQ(fault(falsified(cube, [](const Tensor& g, const Tensor&) { return g * rand({2}, float64); })),
            Fault::not_repeatable);
  EXPECT_EQ(fault(falsified(cube, [](const Tensor&, const Tensor&) -> Tensor { throw ValueError("no"); })),
            Fault::threw);
}

TEST(Gradcheck, NanFailsOnBothSidesToo) {
  const auto report = gradcheck([](const Tensors& in) { return log(in[0]); }, {values({-1, 1})});
  EXPECT_EQ(report.fault, Fault::non_finite) << report.to_string();
}

TEST(Gradcheck, SuspectsKinks) {
  const auto at_zero = gradcheck([](const Tensors& in) { return relu(in[0]); }, {values({-1, 0, 1})});
  EXPECT_EQ(at_zero.fault, Fault::kink) << at_zero.to_string();
  expect_words(at_zero, {"kink", "[1]"});
  const auto tie = gradcheck([](const Tensors& in) { return max(in[0], 0); }, {values({2, 2, 1})});
  EXPECT_EQ(tie.fault, Fault::kink) << tie.to_string();
  const auto wrong = gradcheck(falsified(relu, [](const Tensor& g, const Tensor&) { return g * 5; }), {values({0, 1})});
  EXPECT_EQ(wrong.fault, Fault::value) << "a wrong gradient beside a kink: " << wrong.to_string();
}

TEST(Gradcheck, MovesZeroByAnAbsoluteStep) {
  EXPECT_TRUE(gradcheck([](const Tensors& in) { return sin(in[0]); }, {zeros({3}, float64)}));
  EXPECT_FALSE(gradcheck(falsified(sin, [](const Tensor& g, const Tensor&) { return g * 2; }), {zeros({3}, float64)}));
}

TEST(Gradcheck, TakesManyInputsAndOutputs) {
  const auto f = [](const Tensors& in) { return Tensors{in[0] * in[1], eq(in[0], 0), sum(exp(in[1])), in[2]}; };
  const auto report = gradcheck(f, {randn({2, 3}, float64), randn({3}, float64), tensor({1, 2})});
  EXPECT_TRUE(report) << report.to_string();
  EXPECT_EQ(report.compared, 6 * 9 + 9);
}

TEST(Gradcheck, TakesAnyArrangementOfInputs) {
  const Tensor x = randn({2, 3}, float64), row = randn({3}, float64);
  const auto product = [](const Tensors& in) { return in[0] * in[1] + in[0]; };
  EXPECT_TRUE(gradcheck(product, {x, x}));
  EXPECT_TRUE(gradcheck(product, {transpose(randn({3, 2}, float64), 0, 1), expand(row, {2, 3})}));
  EXPECT_TRUE(gradcheck(product, {zeros({0, 3}, float64), row}));
  EXPECT_TRUE(gradcheck([](const Tensors& in) { return in[0]; }, {x})) << "the function may return its input";
  EXPECT_TRUE(gradcheck([](const Tensors& in) { return square(in[0].reshape({6})); }, {transpose(x, 0, 1)}));
}

TEST(Gradcheck, UsesRandomDirectionsForLargeJacobians) {
  const Tensor x = randn({400}, float64);
  const auto right = gradcheck([](const Tensors& in) { return softmax(in[0], 0) * 100; }, {x}, {.max_jacobian = 1000});
  EXPECT_TRUE(right) << right.to_string();
  EXPECT_EQ(right.compared, 8);
  EXPECT_EQ(right.seed, std::uint64_t{0});
  const auto wrong = falsified(cube, [](const Tensor& g, const Tensor& v) { return g * 3.03 * v * v; });
  const auto report = gradcheck(wrong, {x}, {.max_jacobian = 1000, .seed = 12});
  EXPECT_EQ(report.fault, Fault::value);
  expect_words(report, {"direction", "seed 12", "1.01 times"});
  const auto blank = falsified([](const Tensor& v) { return softmax(v, 0); },
                               [](const Tensor& g, const Tensor&) { return zeros_like(g); });
  EXPECT_FALSE(gradcheck(blank, {x}, {.atol = 1e-8, .max_jacobian = 1000})) << "a sum of the output would not see this";
}

TEST(Gradcheck, ChecksNamedParameters) {
  Tensor weight = randn({2, 3}, float64).requires_grad_(), bias = randn({2}, float64);
  const Tensor x = randn({4, 3}, float64);
  const auto before = weight.to_vector<double>();
  const auto model = [&] { return tanh(linear(x, weight, bias)); };
  const auto report = gradcheck(model, {{"hidden.weight", weight}, {"hidden.bias", bias}});
  EXPECT_TRUE(report) << report.to_string();
  EXPECT_EQ(weight.to_vector<double>(), before);
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_FALSE(bias.requires_grad());
  const auto detached = gradcheck([&] { return linear(x, weight, bias.detach()); }, {{"hidden.bias", bias}});
  EXPECT_EQ(detached.fault, Fault::missing_gradient);
  expect_words(detached, {"hidden.bias", "[0]"});
}

TEST(Gradcheck, ItsRuleIsDocumentedAndAdjustable) {
  const autograd::GradcheckOptions defaults;
  EXPECT_EQ(defaults.eps, 1e-6);
  EXPECT_EQ(defaults.atol, 1e-5);
  EXPECT_EQ(defaults.rtol, 1e-3);
  const auto off_by = [](double factor) {
    return falsified(cube, [factor](const Tensor& g, const Tensor& x) { return g * 3 * x * x * factor; });
  };
  const Tensor x = values({1});  // the tolerance at a slope of 3 is 1e-5 + 3e-3
  EXPECT_TRUE(gradcheck(off_by(1.001), {x}));
  EXPECT_FALSE(gradcheck(off_by(1.00101), {x}));
  EXPECT_TRUE(gradcheck(off_by(1.1), {x}, {.rtol = 0.11}));
  EXPECT_TRUE(gradcheck(off_by(1.1), {x}, {.atol = 0.31, .rtol = 0}));
}

TEST(Gradcheck, LeavesTheModesOfAModule) {
  nn::Linear first(3, 2), second(3, 2);
  second.eval();
  for (nn::Linear* layer : {&first, &second}) {
    layer->to(float64);
    const bool before = layer->is_training();
    const Tensor x = randn({4, 3}, float64);
    EXPECT_TRUE(gradcheck([&] { return (*layer)(x); }, layer->named_parameters()));
    EXPECT_EQ(layer->is_training(), before);
    EXPECT_FALSE(layer->parameters()[0].grad().defined());
  }
}

TEST(Gradcheck, WantsFloat64) {
  const auto f = [](const Tensors& in) { return in[0] * 2; };
  for (const auto& call :
       {std::function<void()>([&] { (void)gradcheck(f, {ones({2})}); }),
        std::function<void()>([&] { (void)gradgradcheck(f, {ones({2})}); }), std::function<void()>([&] {
          (void)gradcheck([] { return ones({1}); }, {{"w", ones({1})}});
        })})
    try {
      call();
      ADD_FAILURE() << "float32 was accepted";
    } catch (const DtypeError& error) {
      EXPECT_NE(std::string(error.what()).find("float64"), std::string::npos) << error.what();
    }
  EXPECT_THROW((void)gradcheck(f, {tensor({1, 2})}), ValueError);
}

/// Random state, grad mode, values, gradients and flags.
struct State {
  RandomState random = random_state();
  bool mode = autograd::grad_enabled();
  std::vector<double> value, gradient;
  bool wanted;
  explicit State(const Tensor& x)
      : value(x.to_vector<double>()), gradient(x.grad().to_vector<double>()), wanted(x.requires_grad()) {}
  friend bool operator==(const State&, const State&) = default;
};

TEST(Gradcheck, LeavesEverythingAsItWas) {
  Tensor x = values({1, 2}).requires_grad_();
  x.set_grad(values({7, 8}));
  const State before(x);
  const auto random = [](const Tensors& in) { return in[0] * rand({2}, float64); };
  EXPECT_FALSE(gradcheck(random, {x}));
  EXPECT_EQ(State(x), before);
  int calls = 0;
  const auto throwing = [&](const Tensors& in) {
    autograd::set_grad_enabled(false);
    (void)rand({3});
    in[0].set_grad(values({0, 0}));
    if (++calls == 4) throw ValueError("the fourth call fails");
    autograd::set_grad_enabled(true);
    return in[0] * 2;
  };
  EXPECT_THROW((void)gradcheck(throwing, {x}), ValueError);
  EXPECT_EQ(State(x), before);
  const auto throwing_model = [&]() -> Tensor {
    if (++calls % 4 == 0) throw ValueError("no");
    return x * 2;
  };
  EXPECT_THROW((void)gradcheck(std::function<Tensor()>(throwing_model), {{"x", x}}), ValueError);
  EXPECT_EQ(State(x), before);
  NoGradGuard no_grad;
  EXPECT_TRUE(gradcheck([](const Tensors& in) { return exp(in[0]); }, {x})) << "grad mode is switched on inside";
  EXPECT_FALSE(autograd::grad_enabled());
}

TEST(Gradgradcheck, FindsAGradientThatIsRightOnlyOnce) {
  const auto once = falsified(cube, [](const Tensor& g, const Tensor& x) { return g * (3 * x.detach() * x.detach()); });
  EXPECT_TRUE(gradcheck(once, {values({1, 2})}));
  const auto report = gradgradcheck(once, {values({1, 2})});
  EXPECT_EQ(report.fault, Fault::missing_gradient) << report.to_string();
  const auto right = gradgradcheck([](const Tensors& in) { return in[0] * exp(in[1]); },
                                   {randn({2, 3}, float64), randn({3}, float64)});
  EXPECT_TRUE(right) << right.to_string();
}

}  // namespace
}  // namespace tapegrad
