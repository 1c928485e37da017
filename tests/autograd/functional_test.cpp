// Jacobians, Hessians and their products: against closed forms, and against each other.
#include "expectations.hpp"

namespace tapegrad {
namespace {

using autograd::Function;
using autograd::hessian;
using autograd::hvp;
using autograd::jacobian;
using autograd::jvp;
using autograd::vjp;
using expectations::expect_near;
using expectations::expect_throws;

Tensor values(std::initializer_list<double> list) { return tensor(list, float64); }

/// Two outputs, [2] and [], of inputs [3] and [3, 2].
Tensors mixed(const Tensors& in) { return {matmul(in[0] * in[0], tanh(in[1])), (exp(in[0]).sum() * in[1]).sum()}; }

Tensors mixed_inputs() {
  manual_seed(5);
  return {randn({3}, float64), randn({3, 2}, float64)};
}

double dot(const Tensor& a, const Tensor& b) { return (a * b).sum().item(); }

TEST(Jacobian, OfClosedForms) {
  const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}, float64);
  const Tensor linear = jacobian([&](const Tensor& x) { return matmul(a, x); }, values({7, 8}));
  EXPECT_EQ(linear.shape(), Shape({3, 2}));
  expect_near(linear, {1, 2, 3, 4, 5, 6}, 1e-12);
  const Tensor squares = jacobian([](const Tensor& x) { return x * x; }, values({1, 2, 3}));
  expect_near(squares, {2, 0, 0, 0, 4, 0, 0, 0, 6}, 1e-12);
  const Tensor scalar = jacobian([](const Tensor& x) { return exp(x); }, tensor(0.0, float64));
  EXPECT_EQ(scalar.shape(), Shape());
  EXPECT_EQ(scalar.item(), 1);
}

TEST(Jacobian, HasABlockForEachOutputAndInput) {
  const Tensors in = mixed_inputs();
  const std::vector<Tensors> blocks = jacobian(mixed, in);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0][0].shape(), Shape({2, 3}));
  EXPECT_EQ(blocks[0][1].shape(), Shape({2, 3, 2}));
  EXPECT_EQ(blocks[1][1].shape(), Shape({3, 2}));
  EXPECT_TRUE(allclose(blocks[1][1], exp(in[0]).sum().expand({3, 2})));
  EXPECT_TRUE(allclose(blocks[0][0], (2 * in[0].unsqueeze(1) * tanh(in[1])).transpose(0, 1)));
  EXPECT_FALSE(blocks[0][0].requires_grad());
}

TEST(Jacobian, IsZeroWithoutAPathAndUndefinedForIntegers) {
  const auto first_alone = [](const Tensors& in) { return in[0] * 2; };
  const auto blocks = jacobian(first_alone, {values({1, 2}), values({3}), tensor({1, 2})});
  expect_near(blocks[0][0], {2, 0, 0, 2}, 0);
  EXPECT_EQ(blocks[0][1].shape(), Shape({2, 1}));
  expect_near(blocks[0][1], {0, 0}, 0);
  EXPECT_FALSE(blocks[0][2].defined());
  const auto constant = jacobian([](const Tensor&) { return ones({2}, float64); }, values({1}));
  expect_near(constant, {0, 0}, 0);
  EXPECT_EQ(jacobian([](const Tensor& x) { return x * x; }, zeros({0}, float64)).shape(), Shape({0, 0}));
}

TEST(Jacobian, OfTheSameTensorTwiceTellsThemApart) {
  const Tensor x = values({3}).requires_grad_();
  const auto blocks = jacobian([](const Tensors& in) { return in[0] * in[0] * in[1]; }, {x, x});
  EXPECT_EQ(blocks[0][0].item(), 18);
  EXPECT_EQ(blocks[0][1].item(), 9);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Jacobian, CanBeDifferentiated) {
  Tensor x = values({1, 2}).requires_grad_();
  const auto cubes = [](const Tensor& in) { return in * in * in; };
  jacobian(cubes, x, {.create_graph = true}).sum().backward();
  expect_near(x.grad(), {6, 12}, 1e-12);
  EXPECT_FALSE(jacobian(cubes, x).requires_grad());
}

TEST(Jacobian, WorksWithoutRecordingAroundIt) {
  const NoGradGuard no_grad;
  expect_near(jacobian([](const Tensor& x) { return x * x; }, values({3})), {6}, 0);
  EXPECT_FALSE(autograd::grad_enabled());
}

TEST(Products, AgreeWithTheJacobian) {
  const Tensors in = mixed_inputs();
  const auto blocks = jacobian(mixed, in);
  const Tensors u = {randn({3}, float64), randn({3, 2}, float64)}, v = {randn({2}, float64), randn({}, float64)};
  const auto forward = jvp(mixed, in, u), backward = vjp(mixed, in, v);
  for (std::size_t k = 0; k < 2; ++k) {
    Tensor expected = zeros(v[k].shape(), float64);
    for (std::size_t i = 0; i < 2; ++i)
      expected =
          expected + reshape(matmul(reshape(blocks[k][i], {v[k].numel(), u[i].numel()}), flatten(u[i])), v[k].shape());
    EXPECT_TRUE(allclose(forward.products[k], expected)) << "output " << k;
    EXPECT_TRUE(allclose(forward.outputs[k], mixed(in)[k]));
  }
  const double left = dot(forward.products[0], v[0]) + dot(forward.products[1], v[1]);
  const double right = dot(backward.products[0], u[0]) + dot(backward.products[1], u[1]);
  EXPECT_NEAR(left, right, 1e-10);
  EXPECT_FALSE(forward.products[0].requires_grad());
}

TEST(Products, TakeUndefinedVectorsAsZero) {
  const auto f = [](const Tensors& in) { return Tensors{in[0] * in[1], in[0].sum()}; };
  const Tensors in = {values({1, 2}), values({3, 4})};
  expect_near(jvp(f, in, {{}, values({1, 1})}).products[0], {1, 2}, 0);
  expect_near(vjp(f, in, {{}, tensor(2.0, float64)}).products[0], {2, 2}, 0);
  expect_near(vjp(f, in, {{}, tensor(2.0, float64)}).products[1], {0, 0}, 0);
}

/// J u has the derivatives that v^T J has, infinite ones too; a direction of 0 picks none of them.
TEST(Products, AreInfiniteAtPoles) {
  const std::vector<std::pair<Function, double>> functions = {
      {[](const Tensors& in) { return log(in[0]); }, 0.25},
      {[](const Tensors& in) { return log1p(in[0] - 1); }, 0.25},
      {[](const Tensors& in) { return sqrt(in[0]); }, 0.25},
      {[](const Tensors& in) { return pow(in[0], 0.5); }, 0.25},
      {[](const Tensors& in) { return -reciprocal(in[0]); }, 0.0625},
      {[](const Tensors& in) { return -1 / in[0]; }, 0.0625}};
  for (const auto& [f, slope] : functions) {
    const Tensors in = {values({0, 4})};
    expect_near(jvp(f, in, {values({1, 1})}).products[0], {expectations::kInf, slope}, 1e-15);
    expect_near(vjp(f, in, {values({1, 1})}).products[0], {expectations::kInf, slope}, 1e-15);
    expect_near(jvp(f, in, {values({0, 1})}).products[0], {0, slope}, 1e-15);
    expect_near(vjp(f, in, {values({0, 1})}).products[0], {0, slope}, 1e-15);
  }
}

TEST(Products, NeedAFunctionToCall) {
  const std::function<Tensors(const Tensors&)> none;
  const std::function<Tensor(const Tensor&)> none_of_one;
  const Tensors in = {values({1})};
  expect_throws<ValueError>([&] { jvp(none, in, in); }, {"a function to call"});
  expect_throws<ValueError>([&] { jacobian(none_of_one, in[0]); }, {"a function to call"});
  expect_throws<ValueError>([&] { hessian(none_of_one, in[0]); }, {"a function to call"});
  expect_throws<ValueError>([&] { (void)autograd::gradcheck(none, in); }, {"a function to call"});
  expect_throws<ValueError>(
      [&] {
        (void)autograd::gradcheck(std::function<Tensor()>(), {{"x", in[0]}});
      },
      {"gradcheck", "a function to call"});
}

TEST(Products, CheckTheirVectors) {
  const auto f = [](const Tensors& in) { return in[0] * in[0]; };
  expect_throws<ValueError>([&] { jvp(f, {values({1})}, {}); }, {"jvp", "one vector", "got 0"});
  expect_throws<ShapeError>([&] { vjp(f, {values({1})}, {values({1, 2})}); }, {"vjp: a vector must", "[1]", "[2]"});
  expect_throws<DtypeError>([&] { hvp([](const Tensors& in) { return in[0].sum(); }, {values({1})}, {ones({1})}); },
                            {"hvp", "float64", "float32"});
  expect_throws<ShapeError>([&] { hessian(f, Tensors{values({1, 2})}); }, {"hessian", "one element", "[2]"});
}

TEST(Hessian, OfClosedForms) {
  const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}}, float64);
  const auto quadratic = [&](const Tensor& x) { return matmul(x, matmul(a, x)); };
  expect_near(hessian(quadratic, values({5, 6})), {2, 5, 5, 8}, 1e-12);
  expect_near(hessian([](const Tensor& x) { return x.sum(); }, values({1, 2})), {0, 0, 0, 0}, 0);
  const auto blocks =
      hessian([](const Tensors& in) { return (in[0] * in[0] * in[1]).sum(); }, {values({2}), values({3})});
  EXPECT_EQ(blocks[0][0].item(), 6);
  EXPECT_EQ(blocks[0][1].item(), 4);
  EXPECT_EQ(blocks[1][0].item(), 4);
  EXPECT_EQ(blocks[1][1].item(), 0);
}

/// Where a first derivative is 0 by convention, so are those of it.
TEST(Hessian, IsZeroWhereTheGradientIsByConvention) {
  for (const double p : {2.0, 3.0})
    expect_near(hessian([p](const Tensor& x) { return norm(x, p); }, values({0, 0})), {0, 0, 0, 0}, 0);
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&)>>{
           [](const Tensor& x) { return log(x); }, [](const Tensor& x) { return sqrt(x); },
           [](const Tensor& x) { return 1 / x; }, [](const Tensor& x) { return pow(x, 0.5); }}) {
    const auto blocks =
        hessian([&](const Tensors& in) { return (f(in[0]) * in[1]).sum(); }, {values({0}), values({0})});
    EXPECT_EQ(blocks[0][0].item(), 0);
    EXPECT_EQ(blocks[0][1].item(), 0);
  }
}

TEST(Hessian, TimesAVectorIsTheProduct) {
  const auto f = [](const Tensors& in) { return softmax(matmul(in[0], in[1]), -1).select(0, 0).exp().sum(); };
  manual_seed(6);
  const Tensors in = {randn({2, 3}, float64), randn({3, 2}, float64)};
  const Tensors u = {randn({2, 3}, float64), randn({3, 2}, float64)};
  const auto blocks = hessian(f, in);
  const auto product = hvp(f, in, u);
  for (std::size_t i = 0; i < 2; ++i) {
    Tensor expected = zeros({6}, float64);
    for (std::size_t j = 0; j < 2; ++j) expected = expected + matmul(reshape(blocks[i][j], {6, 6}), flatten(u[j]));
    EXPECT_TRUE(allclose(flatten(product.products[i]), expected)) << "input " << i;
    EXPECT_TRUE(allclose(blocks[0][1], permute(blocks[1][0], {2, 3, 0, 1})));
  }
  EXPECT_EQ(product.outputs[0].item(), f(in).item());

  const auto of_one = [&](const Tensor& x) { return f({x, in[1]}); };
  EXPECT_TRUE(equal(hvp(of_one, in[0], u[0]), hvp(f, in, {u[0], Tensor()}).products[0]));
}

}  // namespace
}  // namespace tapegrad
