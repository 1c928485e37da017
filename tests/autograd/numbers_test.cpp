// Elementwise functions, reductions and orders by known values: kinks, zeros, ties, nothing, and errors. Composed
// functions have their gradients checked here.
#include "autograd/expectations.hpp"

namespace tapegrad {
namespace {

using namespace expectations;
using Apply = std::function<Tensor(const Tensors&)>;
using Integers = std::vector<std::int64_t>;

Integers integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }

Tensor gradient_of(const std::function<Tensor(const Tensor&)>& f, const Tensor& at) {
  Tensor x = at.detach().clone();
  x.requires_grad_();
  const Tensor y = f(x);
  y.backward(ones(y.shape(), y.dtype()));
  return x.grad();
}

void expect_gradients(const Apply& f, const Tensors& inputs) {
  const auto first = autograd::gradcheck(f, inputs);
  EXPECT_TRUE(first) << first.to_string();
  const auto second = autograd::gradgradcheck(f, inputs);
  EXPECT_TRUE(second) << second.to_string();
}

class Numbers : public ForBothDtypes {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Numbers, testing::Values(float32, float64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(Numbers, FunctionsAreRightAtTheirEnds) {
  const Dtype dtype = GetParam();
  const Values at{-kInf, -1e30, -100, -0.7, -1e-20, -0.0, 0, 1e-20, 1e-3, 0.4, 1, 30, kInf, kNaN};
  const Tensor x = from_vector(at, {14}, dtype);
  const auto expect = [&](const Tensor& y, double (*f)(double)) {
    Values expected;
    for (const double v : at) expected.push_back(f(v));
    expect_near(y, expected, tolerance(dtype));
    EXPECT_EQ(y.dtype(), dtype);
  };
  expect(expm1(x), [](double v) { return std::expm1(v); });
  expect(atan(x), [](double v) { return std::atan(v); });
  expect(elu(x), [](double v) { return v > 0 ? v : std::expm1(v); });
  expect(leaky_relu(x), [](double v) { return v > 0 ? v : 0.01 * v; });
  expect(clamp_min(x, -0.5), [](double v) { return v < -0.5 ? -0.5 : v; });
  expect(clamp_max(x, 0.5), [](double v) { return v > 0.5 ? 0.5 : v; });
  EXPECT_NEAR(expm1(tensor({1e-12}, dtype)).item() / 1e-12, 1, 1e-6);  // no digits are lost
  expect_near(tan(from_vector(Values{-1.2, 0, 0.5, 3}, {4}, dtype)), {std::tan(-1.2), 0, std::tan(0.5), std::tan(3.0)},
              tolerance(dtype));
}

TEST(Elementwise, GradientsAtKinks) {
  const Tensor x = tensor({-1.0, 0.0, 800.0}, float64);
  expect_near(gradient_of([](auto& v) { return leaky_relu(v, 0.25); }, x), {0.25, 0.25, 1}, 1e-15);
  expect_near(gradient_of([](auto& v) { return elu(v, 2); }, x), {2 * std::exp(-1.0), 2, 1}, 1e-15);
  expect_near(gradient_of([](auto& v) { return clamp_min(v, 0); }, x), {0, 1, 1}, 0);
  expect_near(gradient_of([](auto& v) { return clamp_max(v, 0); }, x), {1, 1, 0}, 0);
}

TEST(Elementwise, LerpMeetsItsEnds) {
  const Tensor a = tensor({0.1F, 1e8F}), b = tensor({0.7F, 1.0F});
  EXPECT_TRUE(equal(lerp(a, b, 0.0), a));
  EXPECT_TRUE(equal(lerp(a, b, 1.0), b));
  EXPECT_TRUE(equal(lerp(a, b, tensor({0.0, 1.0})), tensor({0.1F, 1.0F})));
  EXPECT_EQ(lerp(a, b, ones({3, 1})).shape(), (Shape{3, 2}));
  expect_throws<ShapeError>([&] { lerp(a, b, ones({3})); }, {"[2]", "[3]"});
}

TEST(Elementwise, IntegersAndLogic) {
  const Tensor whole = tensor({-2, 0, 3});
  EXPECT_EQ(clamp_min(whole, 0).dtype(), int64);
  EXPECT_EQ(integers(clamp_min(whole, 0)), (Integers{0, 0, 3}));
  EXPECT_EQ(expm1(whole).dtype(), float32);
  EXPECT_EQ(leaky_relu(whole).dtype(), float32);
  EXPECT_EQ(integers(logical_xor(whole, tensor({true, true, false}))), (Integers{0, 1, 1}));
  EXPECT_EQ(logical_xor(whole, whole).dtype(), boolean);
}

TEST(Elementwise, ComposedGradients) {
  const Tensor x = tensor({{-1.1, 0.3}, {0.8, -0.4}}, float64), row = tensor({0.2, 0.9}, float64);
  expect_gradients([](auto& in) { return tan(in[0]); }, {x});
  expect_gradients([](auto& in) { return leaky_relu(in[0], 0.2); }, {transpose(x, 0, 1)});
  expect_gradients([](auto& in) { return elu(in[0], 1.5); }, {x});
  expect_gradients([](auto& in) { return clamp_min(in[0], 0.1) + clamp_max(in[0], 0.5); }, {x});
  expect_gradients([](auto& in) { return lerp(in[0], in[1], in[2]); }, {x, row, row * 0.9});
  expect_gradients([](auto& in) { return lerp(in[0], in[1], 0.75); }, {x, row});
}

TEST(Reductions, Product) {
  EXPECT_EQ(prod(tensor({2, 3, 4})).dtype(), int64);
  EXPECT_EQ(prod(tensor({2, 3, 4})).item(), 24);
  EXPECT_EQ(prod(tensor({true, true})).dtype(), int64);
  EXPECT_EQ(prod(tensor(5.0)).item(), 5);
  EXPECT_EQ(prod(ones({2, 3, 4}), {0, -1}, true).shape(), (Shape{1, 3, 1}));
  EXPECT_TRUE(equal(prod(zeros({3, 0}), 1), ones({3})));
  EXPECT_EQ(prod(zeros({0, 3}), 1).shape(), (Shape{0}));
  EXPECT_TRUE(std::isnan(prod(tensor({0.0, kNaN})).item()));
  // The product of the others, with one zero and with two.
  const Tensor x = tensor({{2.0, 0.0, 5.0}, {0.0, 0.0, 3.0}}, float64);
  expect_near(gradient_of([](auto& v) { return prod(v, 1); }, x), {0, 10, 0, 0, 0, 0}, 0);
  for (const Axes& axes : {Axes(0), Axes(-1), Axes()})
    expect_gradients([axes](auto& in) { return prod(in[0], axes); }, {x});
  expect_gradients([](auto& in) { return prod(in[0], {0, 2}, true); }, {rand({2, 3, 5}, float64).transpose(0, 2)});
  expect_gradients([](auto& in) { return prod(in[0]); }, {zeros({2, 0}, float64)});
}

TEST(Reductions, StandardDeviation) {
  EXPECT_NEAR(tapegrad::std(tensor({1.0, 2.0, 4.0}, float64)).item(), 1.527525231651947, 1e-14);
  EXPECT_NEAR(tapegrad::std(tensor({1.0, 2.0, 4.0}, float64), {}, 0).item(), 1.247219128924647, 1e-14);
  EXPECT_TRUE(std::isnan(tapegrad::std(tensor({1.0})).item()));
  const auto f = [](const Tensor& x) { return tapegrad::std(x, 1); };
  expect_near(gradient_of(f, tensor({{3.0, 3.0}, {1.0, 2.0}}, float64)), {0, 0, -std::sqrt(0.5), std::sqrt(0.5)},
              1e-14);
  expect_gradients([](auto& in) { return tapegrad::std(in[0], {0, -1}, 1, true); }, {rand({2, 3, 2}, float64)});
  expect_throws<DtypeError>([] { tapegrad::std(tensor({1, 2})); }, {"std", "int64"});
}

TEST(Reductions, Norms) {
  const Tensor x = tensor({{3.0, -4.0}, {0.0, 0.0}, {-2.0, 2.0}}, float64);
  expect_near(norm(x, 2, 1), {5, 0, std::sqrt(8.0)}, 1e-15);
  expect_near(norm(x, 1, -1), {7, 0, 4}, 1e-15);
  expect_near(norm(x, kInf, 1), {4, 0, 2}, 0);
  expect_near(norm(x, 0.5, 1), {std::pow(std::sqrt(3.0) + 2, 2), 0, 8}, 1e-14);
  EXPECT_EQ(norm(x, 3, 0, true).shape(), (Shape{1, 2}));
  EXPECT_EQ(norm(tensor(-2.0), 3).item(), 2);
  EXPECT_EQ(norm(zeros({0}), 2).item(), 0);
  for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, kInf})  // never NaN where the norm, or an element, is 0
    expect_near(gradient_of([p](auto& v) { return norm(v, p); }, tensor({0.0, 0.0}, float64)), {0, 0}, 0);
  for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, kInf})
    expect_near(gradient_of([p](auto& v) { return norm(v, p); }, tensor({0.0, -2.0}, float64)), {0, -1}, 1e-15);
  expect_near(gradient_of([](auto& v) { return norm(v, kInf, 1); }, x), {0, -1, 0, 0, -0.5, 0.5}, 0);
  for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, kInf})
    expect_gradients([p](auto& in) { return norm(in[0], p, {0, 2}); }, {rand({2, 3, 2}, float64) + 0.2});
  for (const double p : {0.0, -1.0, kNaN}) expect_throws<ValueError>([&] { norm(x, p); }, {"norm: p must be above 0"});
  expect_throws<ShapeError>([&] { norm(zeros({2, 0}), kInf, 1); }, {"norm", "[2, 0]"});
  expect_throws<ShapeError>([&] { norm(x, 3, 2); }, {"norm", "axis"});
  expect_throws<DtypeError>([] { norm(tensor({1}), 3); }, {"norm", "int64"});
}

TEST(Reductions, GradientsStandWhereTheyBelong) {
  const Tensor x = randn({2, 3, 4}, float64), upstream = tensor({10.0, 20.0, 30.0}, float64);
  for (const Axes& axes : {Axes{1, 2}, Axes{-1, -2}})
    EXPECT_TRUE(equal(gradient_of([&](auto& v) { return mean(v, axes); }, x), full_like(x, 1.0 / 12)));
  for (const Axes& axes : {Axes{0, 2}, Axes{-3, -1}})
    EXPECT_TRUE(equal(gradient_of([&](auto& v) { return sum(v, axes) * upstream; }, x),
                      expand(upstream.reshape({3, 1}), {2, 3, 4})));
  for (auto* reduce : {sum, mean, prod, amax, amin, logsumexp, any, all})
    for (const Axes& twice : {Axes{1, 1}, Axes{2, -1}})
      expect_throws<ShapeError>([&] { reduce(x, twice, false); }, {"axis", "twice"});
}

TEST(Reductions, NaNIsTheLargestForTheGradientToo) {
  const Tensor x = tensor({{1.0, kNaN, 3.0, kNaN}, {1.0, 2.0, 2.0, 0.0}}, float64);
  for (auto* reduce : {amax, amin})
    expect_near(gradient_of([&](auto& v) { return reduce(v, {1}, false); }, slice(x, 0, 0, 1)), {0, 0.5, 0, 0.5}, 0);
  expect_near(gradient_of([](auto& v) { return amax(v, 1); }, x), {0, 0.5, 0, 0.5, 0, 0.5, 0.5, 0}, 0);
  for (auto* larger : {maximum, minimum})
    expect_near(gradient_of([&](auto& v) { return larger(v, ones({2}, float64)); }, tensor({kNaN, 1.0}, float64)),
                {1, 0.5}, 0);
}

TEST(Numbers, SoftplusIsRightFarOut) {
  for (const Dtype dtype : {float32, float64})
    for (const double beta : {1.0, 0.25, 3.0}) {
      const Tensor x = tensor({-kInf, -1e30, -1e5, 1000.0, 1e30, kInf}, dtype).requires_grad_();
      const Tensor y = softplus(x, beta);
      expect_near(y, {0, 0, 0, 1000, static_cast<double>(dtype == float32 ? 1e30F : 1e30), kInf}, 0);
      y.backward(ones({6}, dtype));
      expect_near(x.grad(), {0, 0, 0, 1, 1, 1}, 0);
    }
}

TEST(Reductions, LogSumExpOverSeveralAxes) {
  const Tensor x = tensor({{1000.0, 1001.0}, {-kInf, -kInf}}, float64);
  expect_near(logsumexp(x, Axes()), {1001.3132616875183}, 1e-15);
  expect_near(logsumexp(x, 1), {1001.3132616875183, -kInf}, 1e-15);
  expect_near(logsumexp(tensor({-1000.0, -1001.0}, float64), 0), {-999.6867383124817}, 1e-15);
  EXPECT_EQ(logsumexp(ones({2, 3, 4}), {0, 2}, true).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(logsumexp(zeros({2, 0}), 1).to_vector<double>(), (Values{-kInf, -kInf}));
}

TEST(Reductions, LogSumExpOfRowsOfMinusInfinityHasNoGradient) {
  const Tensor x = tensor({{-kInf, -kInf}, {0.0, -kInf}, {0.0, 0.0}}, float64).requires_grad_();
  const Tensor y = logsumexp(x, 1);
  expect_near(y, {-kInf, 0, std::log(2.0)}, 1e-15);
  const Tensor gradient = autograd::grad({y.sum()}, {x}, {.create_graph = true})[0];
  expect_near(gradient, {0, 0, 1, 0, 0.5, 0.5}, 1e-15);
  expect_near(autograd::grad({(gradient * gradient).sum()}, {x})[0], {0, 0, 0, 0, 0, 0}, 1e-15);
  Tensor all = full({3}, -kInf, float64).requires_grad_();
  logsumexp(all, Axes(), true).sum().backward();
  expect_near(all.grad(), {0, 0, 0}, 0);
}

TEST(Reductions, PlaceOfTheExtremeOfAll) {
  const Tensor x = tensor({{1.0, 7.0, -2.0}, {7.0, -2.0, 0.0}});
  EXPECT_EQ(argmax(x).item(), 1);
  EXPECT_EQ(argmin(x).item(), 2);
  EXPECT_EQ(argmax(transpose(x, 0, 1)).item(), 1);  // [1, 7, 7, -2, -2, 0]
  EXPECT_EQ(argmax(tensor(3.0)).shape(), Shape{});
  EXPECT_EQ(argmax(tensor({1.0, kNaN, 3.0})).item(), 1);
  expect_throws<ShapeError>([] { argmax(zeros({0, 2})); }, {"argmax"});
}

TEST(Reductions, CumulativeSum) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(integers(cumsum(x, 0)), (Integers{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(integers(cumsum(x, -1)), (Integers{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(integers(cumsum(transpose(x, 0, 1), 1)), (Integers{1, 5, 2, 7, 3, 9}));
  EXPECT_EQ(cumsum(tensor({true, true}), 0).dtype(), int64);
  EXPECT_EQ(cumsum(tensor(2.0), -1).item(), 2);
  EXPECT_EQ(cumsum(zeros({2, 0}), 1).shape(), (Shape{2, 0}));
  expect_near(gradient_of([](auto& v) { return cumsum(v, 0); }, zeros({3})), {3, 2, 1}, 0);
  // The sum is kept in double: a million times 0.1 in float32 would be 1% off.
  EXPECT_NEAR(cumsum(full({1000000}, 0.1F), 0).select(0, -1).item(), 100000, 0.1);
  expect_throws<ShapeError>([&] { cumsum(x, 2); }, {"cumsum", "axis"});
  const Tensor wide = randn({3, 70, 1100});
  expect_same_on_any_threads([&] { return Tensors{cumsum(wide, 1), cumsum(wide, 2), cumsum(wide, 0)}; });
}

TEST(Sorting, EqualElementsKeepTheirOrderAndNaNIsTheLargest) {
  const Tensor x = tensor({3.0, kNaN, 1.0, 3.0, -kInf, kNaN, 1.0});
  EXPECT_EQ(integers(argsort(x)), (Integers{4, 2, 6, 0, 3, 1, 5}));
  EXPECT_EQ(integers(argsort(x, 0, true)), (Integers{1, 5, 0, 3, 2, 6, 4}));
  expect_near(sort(x).values, {-kInf, 1, 1, 3, 3, kNaN, kNaN}, 0);
  EXPECT_EQ(integers(topk(x, 3).indices), (Integers{1, 5, 0}));
  EXPECT_EQ(integers(topk(x, 3, 0, false).indices), (Integers{4, 2, 6}));
  EXPECT_EQ(integers(topk(x, 3, 0, false, false).indices), (Integers{2, 4, 6}));  // in x's own order
  EXPECT_EQ(integers(argsort(zeros({40}))), integers(arange(40)));
}

TEST(Sorting, AxesAndDtypes) {
  const Tensor x = tensor({{3, 1, 2}, {0, 5, 4}});
  const auto [values, indices] = sort(x, 0);
  EXPECT_EQ(integers(values), (Integers{0, 1, 2, 3, 5, 4}));
  EXPECT_EQ(integers(indices), (Integers{1, 0, 0, 0, 1, 1}));
  EXPECT_EQ(values.dtype(), int64);
  EXPECT_EQ(integers(sort(transpose(x, 0, 1), 0).values), (Integers{1, 0, 2, 4, 3, 5}));
  EXPECT_EQ(integers(sort(tensor({true, false, true})).values), (Integers{0, 1, 1}));
  EXPECT_EQ(sort(tensor(2.0)).values.shape(), Shape{});
  EXPECT_EQ(sort(zeros({2, 0, 3}), 1).indices.shape(), (Shape{2, 0, 3}));
  EXPECT_EQ(sort(zeros({0, 3})).values.shape(), (Shape{0, 3}));
  EXPECT_EQ(topk(x, 0, 1).values.shape(), (Shape{2, 0}));
  const Tensor deep = randn({2, 3, 4, 5});
  for (const std::int64_t axis : {0, 1, 2, 3}) {
    const Sorted order = sort(deep, axis);
    EXPECT_TRUE(equal(order.values, gather(deep, axis, order.indices)));
    EXPECT_TRUE(equal(order.values, flip(sort(deep, axis, true).values, axis)));
    EXPECT_TRUE(equal(topk(deep, 2, axis, false).values, slice(order.values, axis, 0, 2)));
  }
  expect_same_on_any_threads([] {
    manual_seed(3);
    const Tensor many = randn({300, 90});
    return Tensors{sort(many, 0).values, topk(many, 7, 1).indices};
  });
}

TEST(Sorting, GradientGoesToTheValues) {
  const Tensor x = tensor({{0.3, -1.0, 2.0}, {5.0, 4.0, 4.5}}, float64);
  const auto weights = [](const Tensor& y) { return y * tensor({10.0, 20.0, 30.0}); };
  expect_near(gradient_of([&](auto& v) { return weights(sort(v).values); }, x), {20, 10, 30, 30, 10, 20}, 0);
  expect_near(gradient_of([&](auto& v) { return topk(v, 1).values; }, x), {0, 0, 1, 1, 0, 0}, 0);
  for (const std::int64_t axis : {0, 1}) {
    expect_gradients([=](auto& in) { return square(sort(in[0], axis, true).values); }, {x});
    expect_gradients([=](auto& in) { return square(topk(in[0], 2, axis, false, false).values); }, {x});
  }
  EXPECT_FALSE(sort(x.detach().requires_grad_()).indices.requires_grad());
}

TEST(Sorting, Errors) {
  const Tensor x = ones({2, 3});
  expect_throws<ValueError>([&] { topk(x, 4, 1); }, {"topk: k must be in", "got 4", "[2, 3]"});
  expect_throws<ValueError>([&] { topk(x, -1); }, {"got -1"});
  expect_throws<ShapeError>([&] { topk(x, 1, 2); }, {"topk", "axis"});
  expect_throws<ShapeError>([&] { sort(x, -3); }, {"sort", "axis"});
  expect_throws<ShapeError>([&] { argsort(x, 5); }, {"argsort", "axis"});
}

TEST(RmsNorm, ByItsFormula) {
  const Tensor x = tensor({{3.0, 4.0}, {0.0, 0.0}}, float64), weight = tensor({2.0, -1.0}, float64);
  expect_near(rms_norm(x, {}, 0.0).select(0, 0), {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)}, 1e-15);
  expect_near(rms_norm(x, weight), {6 / std::sqrt(12.5), -4 / std::sqrt(12.5), 0, 0}, 1e-15);
  expect_near(rms_norm(x, weight, 1.0, 1).select(0, 0), {6 / std::sqrt(13.5), -4 / std::sqrt(13.5)}, 1e-15);
  EXPECT_EQ(rms_norm(ones({0, 3}), {}).shape(), (Shape{0, 3}));
  expect_gradients([](auto& in) { return rms_norm(in[0], in[1]); }, {rand({2, 3}, float64), rand({3}, float64)});
  expect_gradients([](auto& in) { return rms_norm(in[0], in[1], 0.1, 2); },
                   {transpose(rand({2, 4, 3}, float64), 0, 1), rand({2, 3}, float64)});
  expect_throws<ShapeError>([&] { rms_norm(x, ones({3})); }, {"rms_norm", "[2]", "[3]"});
  expect_throws<ShapeError>([&] { rms_norm(x, {}, 1e-5, 3); }, {"rms_norm", "got 3"});
  expect_throws<DtypeError>([] { rms_norm(tensor({1, 2}), {}); }, {"rms_norm", "int64"});
}

}  // namespace
}  // namespace tapegrad
