#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/gradcheck.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad {
namespace {

using Integers = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Tensor counting(const Shape& shape, Dtype dtype = float32) { return reshape(arange(shape.numel()), shape).to(dtype); }
Integers integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }
bool share(const Tensor& a, const Tensor& b) { return a.array().storage().get() == b.array().storage().get(); }

template <class E>
void expect_error(const std::function<void()>& f, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected: " << part;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// The gradient of sum(f(x) * weights) with weights 1, 2, 3, ...
Floats gradient(const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
  Tensor x = counting(shape);
  x.requires_grad_();
  const Tensor y = f(x);
  y.backward(counting(y.shape(), y.dtype()) + 1);
  EXPECT_EQ(x.grad().shape(), shape);
  return x.grad().to_vector<float>();
}

TEST(ViewTest, ShareMemory) {
  const Tensor x = counting({2, 3, 4});
  for (const Tensor& view : {x.reshape({6, -1}), x.flatten(), x.transpose(0, -1), x.permute({2, 0, 1}), x.unsqueeze(-1),
                             x.unsqueeze(0).squeeze(0), x.unsqueeze(0).expand({5, -1, 3, 4}), x.slice(1, 0, 2),
                             x.select(0, 1), x.contiguous()})
    EXPECT_TRUE(share(view, x));
  EXPECT_FALSE(share(x.clone(), x));
  EXPECT_FALSE(share(x.transpose(0, 1).contiguous(), x));
}

TEST(ViewTest, Shapes) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(x.flatten(1).shape(), (Shape{2, 12}));
  EXPECT_EQ(x.flatten(0, -2).shape(), (Shape{6, 4}));
  EXPECT_EQ(tensor(1.0).flatten().shape(), (Shape{1}));
  EXPECT_EQ(x.permute({-1, 0, 1}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(x.unsqueeze(1).shape(), (Shape{2, 1, 3, 4}));
  EXPECT_EQ(x.unsqueeze(-1).shape(), (Shape{2, 3, 4, 1}));
  EXPECT_EQ(x.squeeze(1).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(zeros({0, 3}).reshape({3, 0, 5}).shape(), (Shape{3, 0, 5}));
  EXPECT_EQ(zeros({0, 3}).reshape({-1, 3}).shape(), (Shape{0, 3}));
}

TEST(ViewTest, SliceFollowsPython) {
  const Tensor x = arange(6);
  constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(integers(x.slice(0, 1, 4)), (Integers{1, 2, 3}));
  EXPECT_EQ(integers(x.slice(0, -2, end)), (Integers{4, 5}));
  EXPECT_EQ(integers(x.slice(0, -100, 100, 4)), (Integers{0, 4}));
  EXPECT_EQ(integers(x.slice(0, 1, 6, end)), (Integers{1}));
  EXPECT_EQ(x.slice(0, 4, 2).shape(), (Shape{0}));
  EXPECT_EQ(x.slice(0, 9, end).shape(), (Shape{0}));
  EXPECT_EQ(x.select(0, -1).item(), 5);
}

TEST(ShapingTest, Values) {
  const Tensor x = counting({2, 3}, int64);
  EXPECT_EQ(integers(cat({x, x.slice(1, 0, 1)}, 1)), (Integers{0, 1, 2, 0, 3, 4, 5, 3}));
  EXPECT_EQ(integers(stack({x, x}, 1)), (Integers{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(cat({x, tensor({{0.5, 0.5, 0.5}})}).dtype(), float32);
  EXPECT_EQ(integers(flip(x, {1})), (Integers{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(integers(flip(x, {})), (Integers{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(integers(tril(x)), (Integers{0, 0, 0, 3, 4, 0}));
  EXPECT_EQ(integers(tril(x, 1)), (Integers{0, 1, 0, 3, 4, 5}));
  EXPECT_EQ(integers(tril(x, -5)), (Integers{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(integers(triu(x, 1)), (Integers{0, 1, 2, 0, 0, 5}));
  EXPECT_EQ(integers(triu(x.transpose(0, 1))), (Integers{0, 3, 0, 4, 0, 0}));
  EXPECT_EQ(integers(masked_fill(x, tensor({true, false, true}), 9)), (Integers{9, 1, 9, 9, 4, 9}));
  EXPECT_EQ(masked_fill(x, tensor({1, 0, 0}), 2.5).dtype(), int64);
  EXPECT_EQ(integers(index_select(x, -1, tensor({2, 0, 2}))), (Integers{2, 0, 2, 5, 3, 5}));
  EXPECT_EQ(integers(gather(x, 1, tensor({{2, 2}, {0, 1}}))), (Integers{2, 2, 3, 4}));
  EXPECT_EQ(integers(gather(x, 0, tensor({{1, 0, 1}}))), (Integers{3, 1, 5}));
  EXPECT_EQ(integers(tensor({1.9, -1.9}).to(int64)), (Integers{1, -1}));
}

TEST(ShapingTest, Gradients) {
  EXPECT_EQ(gradient({2, 3}, [](const Tensor& x) { return x.transpose(0, 1); }), (Floats{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(gradient({2, 3}, [](const Tensor& x) { return x.transpose(0, 1).reshape({6}); }),
            (Floats{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(gradient({4}, [](const Tensor& x) { return x.slice(0, 1, 4, 2); }), (Floats{0, 1, 0, 2}));
  EXPECT_EQ(gradient({2, 2}, [](const Tensor& x) { return x.select(1, 1); }), (Floats{0, 1, 0, 2}));
  EXPECT_EQ(gradient({2, 1},
                     [](const Tensor& x) {
                       return x.expand({2, 2, 2});
                     }),
            (Floats{1 + 2 + 5 + 6, 3 + 4 + 7 + 8}));
  EXPECT_EQ(gradient({2}, [](const Tensor& x) { return cat({x, x}); }), (Floats{4, 6}));
  EXPECT_EQ(gradient({3}, [](const Tensor& x) { return flip(x, 0); }), (Floats{3, 2, 1}));
  EXPECT_EQ(gradient({2, 2}, [](const Tensor& x) { return tril(x); }), (Floats{1, 0, 3, 4}));
  EXPECT_EQ(gradient({3}, [](const Tensor& x) { return index_select(x, 0, tensor({2, 0, 2})); }), (Floats{2, 0, 4}));
  EXPECT_EQ(gradient({1, 2}, [](const Tensor& x) { return gather(x, 1, tensor({{1, 1, 0}})); }), (Floats{3, 3}));
  EXPECT_EQ(gradient({3}, [](const Tensor& x) { return masked_fill(x, tensor({0, 1, 0}), 7); }), (Floats{1, 0, 3}));
  EXPECT_EQ(gradient({2}, [](const Tensor& x) { return x.to(float64); }), (Floats{1, 2}));
}

TEST(ShapingTest, GradientsOfGradients) {
  const Tensor x = counting({2, 3, 4}, float64) * 0.1 + 0.3;
  const Tensor rows = tensor({1, 0, 1, 2});
  const Tensor picks = counting({2, 3, 2}, int64) * 0 + tensor({3, 1});
  const std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [](const Tensor& t) {
        return t.reshape({4, 6});
      },
      [](const Tensor& t) {
        return t.permute({2, 0, 1});
      },
      [](const Tensor& t) { return t.slice(2, 1, 4, 2); },
      [](const Tensor& t) { return t.select(1, -1); },
      [](const Tensor& t) {
        return t.unsqueeze(1).expand({2, 3, 3, 4});
      },
      [](const Tensor& t) {
        return cat({t, t.slice(1, 0, 1)}, 1);
      },
      [](const Tensor& t) {
        return stack({t, flip(t, {0, 2})}, -1);
      },
      [](const Tensor& t) { return tril(t) + triu(t, 1); },
      [&](const Tensor& t) { return index_select(t, 1, rows); },
      [&](const Tensor& t) { return gather(t, 2, picks); },
      [](const Tensor& t) {
        return masked_fill(t, tensor({true, false, false, true}), 2);
      },
      [](const Tensor& t) { return t.transpose(0, 2).contiguous().clone().squeeze(1); },
  };
  for (const auto& f : functions) {
    const auto squared = [&](const Tensors& in) { return square(f(in[0])); };
    EXPECT_TRUE(autograd::gradcheck(squared, {x}));
    EXPECT_TRUE(autograd::gradgradcheck(squared, {x}));
  }
}

TEST(ShapingTest, Errors) {
  const Tensor x = counting({2, 3});
  expect_error<ShapeError>([&] { x.reshape({4, 2}); }, "reshape: the new shape must have as many elements");
  expect_error<ShapeError>([&] { x.reshape({-1, -1}); }, "single -1");
  expect_error<ShapeError>([&] { x.reshape({-1, 4}); }, "a multiple of 4");
  expect_error<ShapeError>([&] { zeros({0}).reshape({-1, 0}); }, "beside a size of 0");
  expect_error<ShapeError>([&] { x.permute({0}); }, "permute");
  expect_error<ShapeError>([&] { x.permute({0, -2}); }, "permute");
  expect_error<ShapeError>([&] { x.transpose(0, 2); }, "transpose");
  expect_error<ShapeError>([&] { x.expand({4, 3}); }, "expand: only dimensions of size 1");
  expect_error<ShapeError>([&] { x.expand({-1, 2, 3}); }, "expand");
  expect_error<ShapeError>([&] { x.flatten(1, 0); }, "flatten");
  expect_error<ValueError>([&] { x.slice(0, 0, 2, 0); }, "slice: step");
  expect_error<IndexError>([&] { x.select(1, 3); }, "select: index must be in [-3, 3)");
  expect_error<ValueError>([&] { cat({}); }, "cat");
  expect_error<ShapeError>([&] { cat({x, counting({3, 2})}); }, "position 1, [3, 2]");
  expect_error<ShapeError>([&] { stack({x, counting({3, 2})}); }, "stack");
  expect_error<ShapeError>([&] { tril(arange(3)); }, "tril");
  expect_error<ShapeError>([&] { masked_fill(x, zeros({2}), 0); }, "masked_fill");
  expect_error<IndexError>([&] { index_select(x, 0, tensor({0, 2})); }, "got 2 at element 1");
  expect_error<DtypeError>([&] { index_select(x, 0, tensor({0.0})); }, "index_select: the index must be int64");
  expect_error<IndexError>([&] { gather(x, 1, tensor({{0}, {-1}})); }, "got -1");
  expect_error<ShapeError>([&] { gather(x, 1, tensor({{0}, {0}, {0}})); }, "gather: the index must have");
}

TEST(ShapingTest, TheFirstIndexOutsideIsToldOfWhicheverThreadMeetsOneFirst) {
  const Tensor x = zeros({40000, 2}), index = zeros({40000, 2}, int64);
  std::int64_t* values = index.mutable_array().data<std::int64_t>();
  values[16383] = -7, values[16384] = 2;  // the last of a task's and the first of the next one's
  expect_error<IndexError>([&] { gather(x, 1, index); }, "gather: indices must be in [0, 2); got -7 at element 16383");
  expect_error<IndexError>([&] { scatter_add(x, 1, index, x); }, "got -7 at element 16383");
  values[16383] = 0;
  expect_error<IndexError>([&] { gather(x, 1, index); }, "got 2 at element 16384");
}

TEST(ShapingTest, ElementsThatCanNotBeCountedAreRefused) {
  constexpr std::int64_t k31 = std::int64_t{1} << 31, k32 = k31 * 2, k62 = k31 * k31;
  const Tensor one = ones({1}), many = one.expand({k62});
  expect_error<ShapeError>([&] { one.expand({k32, k32}); }, "Shape: the number of elements");
  expect_error<Error>([&] { one.expand({k31, k31}).clone(); }, "memory");
  expect_error<ShapeError>([&] { cat({many, many}); }, "cat");
  expect_error<ShapeError>([&] { stack({many, many, many, many}); }, "Shape: the number of elements");
  expect_error<Error>([&] { index_select(ones({1, 1}).expand({1, k62}), 0, zeros({4}, int64)); }, "");
  expect_error<ShapeError>([&] { ones({4}).reshape({k62 + 1, 4}); }, "Shape: the number of elements");
  expect_error<ShapeError>([&] { ones({4}).reshape({-1, k62, 4}); }, "Shape: the number of elements");
  const Tensor column = ones({1, 1}).expand({k32, 1}), row = ones({1, 1}).expand({1, k32});
  expect_error<Error>([&] { matmul(column, row); }, "");
  expect_error<ShapeError>([&] { column + row; }, "Shape: the number of elements");
  EXPECT_EQ(zeros({0, k32, k32}).numel(), 0);
  EXPECT_EQ(zeros({k32, k32, 0}).clone().numel(), 0);
}

TEST(CreationTest, Values) {
  EXPECT_EQ(integers(arange(2, 9, 3)), (Integers{2, 5, 8}));
  EXPECT_EQ(integers(arange(3, 0, -1)), (Integers{3, 2, 1}));
  EXPECT_EQ(arange(0.0, 1.0, 0.25).to_vector<float>(), (Floats{0, 0.25f, 0.5f, 0.75f}));
  EXPECT_EQ(arange(5, 2).numel(), 0);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(), least = -most - 1;
  EXPECT_EQ(integers(arange(most - 3, most)), (Integers{most - 3, most - 2, most - 1}));
  EXPECT_EQ(integers(arange(least, most, most)), (Integers{least, -1, most - 1}));
  EXPECT_EQ(integers(arange(most, least, least)), (Integers{most, -1}));
  EXPECT_EQ(eye(2).to_vector<float>(), (Floats{1, 0, 0, 1}));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
  const std::vector<double> spaced = linspace(0.1, 0.7, 7, float64).to_vector<double>();
  EXPECT_EQ(spaced.front(), 0.1);
  EXPECT_EQ(spaced.back(), 0.7);
  EXPECT_EQ(linspace(3, 4, 1).item(), 3);
  EXPECT_EQ(full({2}, (std::int64_t{1} << 53) + 1, int64).to_vector<std::int64_t>()[1], (std::int64_t{1} << 53) + 1);
  EXPECT_EQ(full({}, 2.5).item(), 2.5);
  Integers order = integers(randperm(100));
  EXPECT_NE(order, integers(arange(100)));
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, integers(arange(100)));
}

TEST(CreationTest, Errors) {
  expect_error<ShapeError>([] { zeros({2, -1}); }, "zeros: sizes must not be negative; got shape [2, -1]");
  expect_error<ShapeError>(
      [] {
        randn({std::int64_t{1} << 40, std::int64_t{1} << 40});
      },
      "Shape: the number of elements");
  expect_error<ValueError>([] { arange(0, 3, 0); }, "arange");
  constexpr double infinite = std::numeric_limits<double>::infinity();
  expect_error<ValueError>([] { arange(0.0, infinite); }, "arange: all must be finite");
  expect_error<ValueError>([] { arange(0.0, 3.0, infinite); }, "arange: all must be finite");
  expect_error<ValueError>([] { arange(0.0, 3.0, std::nan("")); }, "arange: all must be finite");
  expect_error<ValueError>([] { randint(3, 3, {1}); }, "randint");
  expect_error<DtypeError>([] { rand({2}, int64); }, "rand");
  expect_error<ShapeError>([] { from_vector(std::vector<float>{1, 2}, {3}); }, "from_vector");
}

TEST(ShapingTest, SameForAnyNumberOfThreads) {
  const int before = num_threads();
  const Tensor x = rand({40, 50, 60}), index = randint(0, 50, {700});
  std::vector<Floats> expected;
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    Tensor leaf = x.clone();
    leaf.requires_grad_();
    const Tensor y = index_select(leaf, 1, index);
    y.backward(tril(y.detach()));
    expected.push_back(leaf.grad().to_vector<float>());
    EXPECT_EQ(expected.back(), expected.front());
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tapegrad
