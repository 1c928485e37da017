// Dropout, embedding, linear and cross entropy against plain loops in double; second order and threads for all.
#include <cmath>
#include <string>

#include "expectations.hpp"

namespace tapegrad {
namespace {

using namespace expectations;

class Neural : public ForBothDtypes {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Neural, testing::Values(float32, float64),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

TEST_P(Neural, DropoutKeepsTheShareThatItShould) {
  const Tensor x = ones({1000, 100}, GetParam()).requires_grad_();
  const Tensor y = dropout(x, 0.2);
  const double kept = ne(y, 0.0).to(float64).mean().item();
  EXPECT_NEAR(kept, 0.8, 0.005);
  EXPECT_TRUE(allclose(y.sum(), tensor(kept * 1e5 * 1.25, GetParam()), 1e-4));
  y.sum().backward();
  EXPECT_TRUE(equal(x.grad(), y));  // the same mask, scaled by 1 / (1 - p)
  EXPECT_FALSE(equal(dropout(x, 0.2), y));
}

TEST(Dropout, AtItsEnds) {
  const Tensor x = tensor({1.0, kInf, kNaN, -3.0}).requires_grad_();
  const Tensor none = dropout(x, 1.0);
  EXPECT_TRUE(equal(none, zeros({4})));
  none.backward(tensor({1.0, kInf, 2.0, 3.0}));
  EXPECT_TRUE(equal(x.grad(), zeros({4})));
  const RandomState before = random_state();
  for (const Tensor& same : {dropout(x, 0.0), dropout(x, 0.7, false)}) {
    EXPECT_EQ(same.body(), x.body());
    EXPECT_TRUE(same.requires_grad());
  }
  EXPECT_EQ(random_state(), before);
  const Tensor kept = ones({1000}).requires_grad_(), some = dropout(kept, 0.2);
  some.backward(ones({1000}));  // the forward pass's mask, and its factor
  EXPECT_TRUE(equal(kept.grad(), some));
  EXPECT_TRUE(all(logical_or(eq(some, 0), eq(some, 1.25))).item());
  for (double p : {-0.1, 1.1, kNaN}) expect_throws<ValueError>([&] { dropout(x, p); }, {"dropout", "[0, 1]"});
  for (bool training : {true, false})
    expect_throws<DtypeError>([&] { dropout(tensor({1, 2}), 0.5, training); }, {"dropout", "int64"});
}

TEST(Dropout, DependsOnTheStateAndThePositionAlone) {
  const auto f = [] {
    manual_seed(7);
    return Tensors{dropout(ones({301, 97}), 0.5)};
  };
  expect_same_on_any_threads(f);
  const Tensor expected = f()[0];
  manual_seed(7);
  EXPECT_TRUE(equal(dropout(ones({97, 301}).transpose(0, 1), 0.5), expected));
}

TEST(Embedding, PaddingGetsNothingAndRepeatedRowsAddUp) {
  for (std::int64_t padding : {0, -4}) {
    const Tensor table = randn({4, 2}).requires_grad_();
    const Tensor rows = embedding(table, tensor({1, 1, 0, 3}), padding);
    EXPECT_TRUE(equal(rows, stack({table.select(0, 1), table.select(0, 1), table.select(0, 0), table.select(0, 3)})));
    rows.sum().backward();
    EXPECT_TRUE(equal(table.grad(), tensor({{0., 0.}, {2., 2.}, {0., 0.}, {1., 1.}})));
  }
}

TEST_P(Neural, EmbeddingOfManyIndicesIsALoop) {
  const std::int64_t width = 130, rows = 50;
  const Tensor table = randn({width, rows}, GetParam()).transpose(0, 1).requires_grad_();
  const Tensor indices = randint(0, rows, {20, 30}).transpose(0, 1);
  const Tensor g = randn({30, 20, width}, GetParam());
  const auto at = indices.to_vector<std::int64_t>();
  const Values weight = table.to_vector<double>(), gs = g.to_vector<double>();
  Values picked, gradient(weight.size());
  for (std::size_t i = 0; i < at.size(); ++i)
    for (std::int64_t j = 0; j < width; ++j) {
      picked.push_back(weight[static_cast<std::size_t>(at[i] * width + j)]);
      gradient[static_cast<std::size_t>(at[i] * width + j)] +=
          gs[i * static_cast<std::size_t>(width) + static_cast<std::size_t>(j)];
    }
  const Tensor y = embedding(table, indices);
  EXPECT_EQ(y.shape(), (Shape{30, 20, width}));
  expect_near(y, picked, 0);
  expect_near(autograd::grad({y}, {table}, {.grad_outputs = {g}})[0], gradient, tolerance(GetParam()));
}

TEST(Embedding, RefusesWhatItCannotLookUp) {
  const Tensor table = randn({4, 2});
  expect_throws<IndexError>(
      [&] {
        embedding(table, tensor({{0, 1}, {2, 4}}));
      },
      {"embedding", "4", "position 3", "[0, 4)"});
  expect_throws<IndexError>([&] { embedding(table, tensor({-1})); }, {"embedding", "-1", "position 0"});
  expect_throws<IndexError>([&] { embedding(table, tensor({1}), 4); }, {"padding_index", "4"});
  expect_throws<DtypeError>([&] { embedding(table, tensor({1.0})); }, {"embedding", "int64", "float32"});
  expect_throws<ShapeError>([&] { embedding(ones({4}), tensor({1})); }, {"embedding", "[4]"});
  EXPECT_EQ(embedding(table, zeros({0, 3}, int64)).shape(), (Shape{0, 3, 2}));
}

TEST_P(Neural, LinearIsAProductAndASum) {
  const Tensor x = randn({3, 6, 5}, GetParam()).transpose(0, 1).requires_grad_(),
               w = randn({4, 5}, GetParam()).requires_grad_();
  const Tensor b = randn({4}, GetParam()).requires_grad_(), g = randn({6, 3, 4}, GetParam());
  const double near = tolerance(GetParam());
  const Tensors got = autograd::grad({linear(x, w, b)}, {x, w, b}, {.grad_outputs = {g}});
  const Tensor expected = matmul(x, w.transpose(0, 1)) + b;
  const Tensors right = autograd::grad({expected}, {x, w, b}, {.grad_outputs = {g}});
  EXPECT_TRUE(allclose(linear(x, w, b), expected, near, near));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(allclose(got[i], right[i], near, near)) << "input " << i;
  EXPECT_TRUE(allclose(linear(x, w), matmul(x, w.transpose(0, 1)), near, near));
}

TEST_P(Neural, GeluLinearIsTheTwoOperations) {
  manual_seed(3);
  for (const Shape& shape : {Shape{300, 37}, Shape{3, 5, 16}, Shape{16}}) {
    const Tensor x = randn(shape, GetParam()).requires_grad_(),
                 w = randn({11, shape.back()}, GetParam()).requires_grad_(),
                 b = randn({11}, GetParam()).requires_grad_();
    const Tensor together = gelu_linear(x, w, b), apart = linear(gelu(x), w, b);
    EXPECT_TRUE(equal(together, apart));
    const Tensor g = randn(apart.shape(), GetParam());
    const Tensors got = autograd::grad({together}, {x, w, b}, {.grad_outputs = {g}});
    const Tensors expected = autograd::grad({apart}, {x, w, b}, {.grad_outputs = {g}});
    const double tolerance = GetParam() == float32 ? 1e-5 : 1e-13;
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(allclose(got[i], expected[i], tolerance, tolerance)) << i;
  }
}

TEST(GeluLinear, ComputesWhatIsWantedAlone) {
  manual_seed(6);
  for (int wanted = 1; wanted < 8; ++wanted) {
    Tensors all, some;
    for (const Shape& shape : {Shape{5, 7}, Shape{3, 7}, Shape{3}}) {
      all.push_back(randn(shape, float64).requires_grad_());
      some.push_back(all.back().detach().requires_grad_((wanted >> some.size() & 1) != 0));
    }
    for (const Tensors& in : {all, some}) gelu_linear(in[0], in[1], in[2]).pow(2).sum().backward();
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(some[i].grad().defined(), (wanted >> i & 1) != 0);
      if (!some[i].grad().defined()) continue;
      EXPECT_TRUE(allclose(some[i].grad(), all[i].grad(), 0, 1e-13)) << wanted;
    }
  }
  const Tensor x = randn({2000, 500}), w = randn({500, 500}).requires_grad_();
  const auto peak_of_sweep = [&](const Tensor& y) {
    const std::int64_t before = memory::current();
    memory::reset_peak();
    autograd::grad({y.sum()}, {w});
    return memory::peak() - before;
  };
  EXPECT_LT(peak_of_sweep(gelu_linear(x, w)), peak_of_sweep(linear(gelu(x), w)) + 2000 * 500 * 4 + (1 << 16));
}

TEST(GeluLinear, KeepsItsInputAlone) {
  const Tensor w = randn({2, 1000}).requires_grad_();
  const auto kept = [&](auto f) {
    const std::int64_t before = memory::current();
    const Tensor y = f(randn({64, 1000}).requires_grad_());
    return memory::current() - before;
  };
  const std::int64_t together = kept([&](const Tensor& x) { return gelu_linear(x * 2, w); });
  const std::int64_t apart = kept([&](const Tensor& x) { return linear(gelu(x * 2), w); });
  EXPECT_GE(apart - together, 64 * 1000 * 4);
}

/// A gradient that a product or a norm adds in place to what other uses of its input have left.
TEST_P(Neural, GradientsOfSharedInputsAddUp) {
  manual_seed(4);
  const Tensor x = randn({6, 8}, GetParam()).requires_grad_(), ones_like_rows = ones({8}, GetParam());
  const Tensor w[] = {randn({5, 8}, GetParam()), randn({5, 8}, GetParam()), randn({8, 8}, GetParam())};
  const auto parts = [&](const Tensor& h) {
    return Tensors{linear(h, w[0]).pow(2).sum(), linear(h, w[1]).sum(),
                   linear(layer_norm(h, ones_like_rows, {}), w[2]).sum(), h.pow(3).sum()};
  };
  for (const bool leaf : {true, false}) {
    const auto input = [&] { return leaf ? x : x * 3; };
    Tensor expected = zeros({6, 8}, GetParam());
    for (std::size_t i = 0; i < 4; ++i) expected = expected + autograd::grad({parts(input())[i]}, {x})[0];
    x.set_grad({});
    const Tensors all = parts(input());
    (all[3] + all[0] + all[2] + all[1]).backward();
    EXPECT_TRUE(allclose(x.grad(), expected, GetParam() == float32 ? 1e-5 : 1e-12));
    EXPECT_TRUE(equal(autograd::grad({parts(x)[0] + parts(x)[1]}, {x})[0],
                      autograd::grad({parts(x)[0] + parts(x)[1]}, {x})[0]));
  }
}

/// What the caller holds is never written to.
TEST(Linear, AGivenGradientStaysAsItIs) {
  const Tensor x = randn({4, 4}).requires_grad_(), w = randn({4, 4});
  const Tensor g = randn({4, 4}), copy = g.clone();
  const Tensor y = x * 2;
  const Tensors seen = autograd::grad({y, linear(y, w)}, {y, x}, {.grad_outputs = {g, g}});
  EXPECT_TRUE(equal(g, copy));
  EXPECT_TRUE(allclose(seen[0], g + matmul(g, w)));
  EXPECT_TRUE(allclose(seen[1], seen[0] * 2));
}

TEST(Linear, EmptySizesAndWrongOnes) {
  EXPECT_TRUE(equal(linear(zeros({3, 0}), zeros({2, 0}), ones({2})), ones({3, 2})));
  EXPECT_TRUE(equal(linear(zeros({3, 0}), zeros({2, 0})), zeros({3, 2})));
  EXPECT_EQ(linear(zeros({0, 5}), zeros({2, 5})).shape(), (Shape{0, 2}));
  EXPECT_EQ(linear(zeros({5}), zeros({2, 5})).shape(), (Shape{2}));
  expect_throws<ShapeError>([] { linear(zeros({3, 4}), zeros({2, 5})); }, {"linear: ", "[3, 4]", "[2, 5]"});
  expect_throws<ShapeError>([] { linear(zeros({3, 5}), zeros({2, 5}), zeros({3})); }, {"linear: bias", "[2]", "[3]"});
  expect_throws<DtypeError>([] { linear(zeros({3, 5}), zeros({2, 5}, float64)); }, {"linear: ", "float32", "float64"});
}

TEST_P(Neural, CrossEntropyOfKnownRows) {
  const Tensor logits = tensor({{2., 1., 0.}, {0., 0., 0.}, {1., 3., 2.}}, GetParam()).requires_grad_();
  const Tensor losses = cross_entropy_rows(logits, tensor({0, -100, 2}));
  expect_near(losses, {0.40760596444, 0, 1.40760596444}, 1e-6);
  (losses.sum() / 2.0).backward();
  expect_near(logits.grad(), {-0.16737952, 0.12236424, 0.04501529, 0, 0, 0, 0.04501529, 0.33262048, -0.37763576}, 1e-7);
}

TEST_P(Neural, CrossEntropyOfLargeLogits) {
  for (double sign : {1.0, -1.0}) {
    const Tensor logits = (tensor({{1000., 0.}, {1000., 0.}, {1000., 1001.}}, GetParam()) * sign).requires_grad_();
    const Tensor losses = cross_entropy_rows(logits, tensor({1, 0, 0}));
    losses.sum().backward();
    if (sign > 0) {
      expect_near(losses, {1000, 0, 1.31326168752}, 1e-6);
      expect_near(logits.grad(), {1, -1, 0, 0, -0.73105857863, 0.73105857863}, 1e-6);
    } else {
      expect_near(losses, {0, 1000, 0.31326168752}, 1e-6);
      expect_near(logits.grad(), {0, 0, -1, 1, -0.26894142137, 0.26894142137}, 1e-6);
    }
  }
}

TEST_P(Neural, CrossEntropyOfWideRowsIsALoop) {
  const std::int64_t classes = 65;
  const Tensor logits = randn({classes, 40}, GetParam()).transpose(0, 1).requires_grad_();
  const Tensor targets = randint(0, classes, {40}), g = randn({40}, GetParam());
  const auto at = targets.to_vector<std::int64_t>();
  const Values logs = softmax_rows(logits.to_vector<double>(), 65, true), gs = g.to_vector<double>();
  Values losses, gradient(logs.size());
  for (std::size_t row = 0; row < 40; ++row) {
    const auto target = static_cast<std::size_t>(at[row]);
    losses.push_back(-logs[row * 65 + target]);
    for (std::size_t i = 0; i < 65; ++i)
      gradient[row * 65 + i] = (std::exp(logs[row * 65 + i]) - (i == target)) * gs[row];
  }
  const Tensor y = cross_entropy_rows(logits, targets);
  expect_near(y, losses, tolerance(GetParam()));
  expect_near(autograd::grad({y}, {logits}, {.grad_outputs = {g}})[0], gradient, tolerance(GetParam()));
}

TEST(CrossEntropy, RefusesTargetsThatAreNoClass) {
  const Tensor logits = zeros({3, 5});
  expect_throws<IndexError>([&] { cross_entropy_rows(logits, tensor({0, 5, 1})); }, {"row 1", "got 5", "[0, 5)"});
  expect_throws<IndexError>([&] { cross_entropy_rows(logits, tensor({0, 1, -4})); }, {"row 2", "got -4", "[0, 5)"});
  EXPECT_EQ(cross_entropy_rows(logits, tensor({7, 7, 7}), 7).sum().item(), 0.0);
  expect_throws<ShapeError>(
      [&] {
        cross_entropy_rows(logits, tensor({0, 1}));
      },
      {"cross_entropy_rows", "[3, 5]", "[2]"});
  expect_throws<DtypeError>([&] { cross_entropy_rows(logits, zeros({3})); }, {"cross_entropy_rows", "int64"});
  EXPECT_EQ(cross_entropy_rows(zeros({0, 5}), zeros({0}, int64)).shape(), Shape{0});
}

TEST(AllNeural, SameBitsOnAnyNumberOfThreads) {
  const Tensor x = randn({1500, 130}).requires_grad_(), w = randn({130}).requires_grad_();
  const Tensor b = randn({130}).requires_grad_(), m = randn({200, 130}).requires_grad_(),
               c = randn({200}).requires_grad_();
  const Tensor indices = randint(0, 200, {1500}), targets = randint(0, 130, {1500});
  const auto both = [](const Tensor& y, const Tensors& inputs) {
    manual_seed(3);
    Tensors results = autograd::grad({y}, inputs, {.grad_outputs = {randn(y.shape())}});
    results.push_back(y);
    return results;
  };
  expect_same_on_any_threads([&] { return both(softmax(x, 1), {x}); });
  expect_same_on_any_threads([&] { return both(log_softmax(x, 0), {x}); });
  expect_same_on_any_threads([&] { return both(layer_norm(x, w, b), {x, w, b}); });
  expect_same_on_any_threads([&] { return both(embedding(m, indices), {m}); });
  expect_same_on_any_threads([&] { return both(linear(x, m, c), {x, m, c}); });
  expect_same_on_any_threads([&] { return both(cross_entropy_rows(x, targets), {x}); });
}

TEST(AllNeural, GradientsOfGradients) {
  const auto draw = [](const Shape& shape) { return randn(shape, float64).requires_grad_(); };
  const Tensor targets = tensor({1, -100, 4}), indices = tensor({1, 1, 0});
  const std::vector<std::pair<autograd::Function, Tensors>> cases = {
      {[](const Tensors& in) { return softmax(in[0], 0); }, {draw({3, 5})}},
      {[](const Tensors& in) { return log_softmax(in[0], 1); }, {draw({3, 5})}},
      {[](const Tensors& in) { return layer_norm(in[0], in[1], in[2], 0.1, 2); },
       {draw({2, 3, 5}), draw({3, 5}), draw({3, 5})}},
      {[](const Tensors& in) { return layer_norm(in[0], {}, in[1], 0.1); }, {draw({3, 5}), draw({5})}},
      {[](const Tensors& in) { return linear(in[0], in[1], in[2]); }, {draw({2, 3}), draw({4, 3}), draw({4})}},
      {[&](const Tensors& in) { return square(embedding(in[0], indices)); }, {draw({3, 2})}},
      {[&](const Tensors& in) { return cross_entropy_rows(in[0], targets); }, {draw({3, 5})}},
      {[](const Tensors& in) {
         manual_seed(5);
         return square(dropout(in[0], 0.4));
       },
       {draw({4, 5})}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_TRUE(gradcheck(cases[i].first, cases[i].second, {.atol = 1e-7, .rtol = 1e-6})) << "case " << i;
    EXPECT_TRUE(gradgradcheck(cases[i].first, cases[i].second, {.atol = 1e-6, .rtol = 1e-5})) << "case " << i;
  }
}

TEST(Embedding, SecondOrderLeavesPaddingOut) {
  const Tensor table = randn({3, 2}, float64).requires_grad_(), g = randn({4, 2}, float64).requires_grad_();
  const Tensor gradient = autograd::grad({embedding(table, tensor({1, 0, 2, 1}), 0)}, {table},
                                         {.grad_outputs = {g}, .create_graph = true})[0];
  const Tensor back = autograd::grad({gradient.sum()}, {g})[0];
  EXPECT_TRUE(equal(back, tensor({{1., 1.}, {0., 0.}, {1., 1.}, {1., 1.}}, float64)));
}

}  // namespace
}  // namespace tapegrad
