// Operations on shape that are made of others: values, what shares memory, gradients of gradients, errors.
#include "expectations.hpp"

namespace tapegrad {
namespace {

using expectations::expect_throws;
using Integers = std::vector<std::int64_t>;
using F = std::function<Tensor(const Tensor&)>;

Tensor counting(const Shape& shape, Dtype dtype = int64) { return reshape(arange(shape.numel()), shape).to(dtype); }
Integers integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }
bool share(const Tensor& a, const Tensor& b) { return a.array().storage().get() == b.array().storage().get(); }

TEST(ShapesTest, ViewsShareMemory) {
  const Tensor x = counting({1, 2, 3, 4});
  Tensors views = {squeeze(x),
                   movedim(x, 0, -1),
                   diagonal(x, 1, 2, 3),
                   narrow(x, 2, 1, 2),
                   broadcast_to(x, {5, 2, 3, 4}),
                   view_as(x, zeros({6, 4}))};
  for (const Tensors& pieces : {split(x, 2, 2), split(x, {1, 2}, 2), chunk(x, 2, 3), unbind(x, 3)})
    views.insert(views.end(), pieces.begin(), pieces.end());
  for (const Tensor& view : views) EXPECT_TRUE(share(view, x)) << view.shape().to_string();
}

TEST(ShapesTest, ValuesOfIntegersAndBooleans) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(integers(movedim(counting({2, 1, 2}), 0, 2)), (Integers{0, 2, 1, 3}));
  EXPECT_EQ(integers(roll(x, 1)), (Integers{5, 0, 1, 2, 3, 4}));
  EXPECT_EQ(integers(roll(x, -1, 1)), (Integers{1, 2, 0, 4, 5, 3}));
  EXPECT_EQ(integers(roll(x, {1, 4}, {0, 1})), (Integers{5, 3, 4, 2, 0, 1}));
  EXPECT_EQ(integers(repeat(tensor({1, 2}), {2, 2})), (Integers{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(integers(repeat(x, {1, 2})), (Integers{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(repeat(ones({1, 1, 1, 1, 1, 1, 1, 2}), Shape::filled(8, 2)).shape(), (Shape{2, 2, 2, 2, 2, 2, 2, 4}));
  EXPECT_EQ(integers(pad(tensor({1, 2}), {1, 2}, 7)), (Integers{7, 1, 2, 7, 7}));
  EXPECT_EQ(integers(pad(x, {-1, 0, 0, 1}, 9)), (Integers{1, 2, 4, 5, 9, 9}));
  EXPECT_EQ(pad(tensor({true}), {1, 0}).to_vector<bool>(), (std::vector<bool>{false, true}));
  EXPECT_EQ(pad(x, {1, 1}, 2.5).dtype(), int64);
  EXPECT_EQ(integers(diagonal(x)), (Integers{0, 4}));
  EXPECT_EQ(integers(diagonal(x, -1)), (Integers{3}));
  EXPECT_EQ(integers(diagonal(counting({2, 2, 3}), 1, 1, 2)), (Integers{1, 5, 7, 11}));
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(diagonal(x, most).shape(), (Shape{0}));
  EXPECT_EQ(diagonal(x, -most - 1).shape(), (Shape{0}));
  EXPECT_EQ(integers(outer(tensor({1, 2}), tensor({3, 4}))), (Integers{3, 4, 6, 8}));
  EXPECT_EQ(trace(x).item(), 4);
  EXPECT_EQ(trace(x).dtype(), int64);
  EXPECT_EQ(integers(scatter_add(zeros({3}, int64), 0, tensor({2, 0, 2}), tensor({1, 2, 4}))), (Integers{2, 0, 5}));
  EXPECT_EQ(integers(take_along_dim(x, tensor({{2}, {0}}), 1)), (Integers{2, 3}));
  EXPECT_EQ(integers(masked_select(x, tensor({true, false, true}))), (Integers{0, 2, 3, 5}));
  EXPECT_EQ(integers(nonzero(tensor({{0, 7}, {0, -1}}))), (Integers{0, 1, 1, 1}));
  EXPECT_EQ(nonzero(tensor(true)).shape(), (Shape{1, 0}));
  EXPECT_EQ(nonzero(tensor({0.5, std::nan("")})).shape(), (Shape{2, 1}));
}

TEST(ShapesTest, Pieces) {
  const auto sizes = [](const Tensors& pieces, int axis = 0) {
    Integers found;
    for (const Tensor& piece : pieces) found.push_back(piece.size(axis));
    return found;
  };
  const Tensor x = counting({5, 2});
  EXPECT_EQ(sizes(split(x, 2)), (Integers{2, 2, 1}));
  EXPECT_EQ(sizes(split(x, {0, 5})), (Integers{0, 5}));
  EXPECT_EQ(sizes(split(x, {5})), (Integers{5}));
  EXPECT_EQ(sizes(split(zeros({0}), 0)), (Integers{0}));
  EXPECT_EQ(sizes(split(x, std::numeric_limits<std::int64_t>::max())), (Integers{5}));
  EXPECT_EQ(sizes(split(zeros({0}), std::vector<std::int64_t>{})), (Integers{}));
  EXPECT_EQ(sizes(chunk(x, 4)), (Integers{2, 2, 1}));
  EXPECT_EQ(sizes(chunk(zeros({0}), 3)), (Integers{0, 0, 0}));
  EXPECT_EQ(sizes(chunk(x, 2, -1), 1), (Integers{1, 1}));
  EXPECT_EQ(unbind(x, 0).size(), 5u);
  EXPECT_TRUE(unbind(zeros({0, 2})).empty());
  EXPECT_EQ(integers(cat(split(x, 2))), integers(x));
  EXPECT_EQ(integers(stack(unbind(x, 1), 1)), integers(x));
}

TEST(ShapesTest, GradientsOfBothOrders) {
  const Tensor x = randn({2, 3, 4}, float64), index = tensor({{0, 2, 0}, {1, 1, 0}});
  const Tensor mask = lt(randn({3, 4}), 0.5), source = randn({2, 3}, float64);
  const std::vector<std::pair<const char*, F>> functions = {
      {"movedim",
       [](const Tensor& t) {
         return movedim(t, {0, 2}, {1, 0});
       }},
      {"roll",
       [](const Tensor& t) {
         return roll(t, {1, -1}, {0, 2}) * roll(t, 5);
       }},
      {"repeat",
       [](const Tensor& t) {
         return repeat(t, {2, 1, 2, 3});
       }},
      {"pad",
       [](const Tensor& t) {
         return pad(t, {1, -1, 0, 2, -1, 0}, 1.5);
       }},
      {"split",
       [](const Tensor& t) {
         return split(t, 2, 1)[0] * split(t, {1, 2}, 1)[1];
       }},
      {"chunk", [](const Tensor& t) { return chunk(t, 2, 2)[1] * chunk(t, 2, -1)[0]; }},
      {"unbind", [](const Tensor& t) { return unbind(t, 1)[2] * unbind(t, 1)[0]; }},
      {"trace", [](const Tensor& t) { return trace(square(select(t, 0, 1))); }},
      {"outer", [](const Tensor& t) { return outer(flatten(select(t, 0, 0)), select(flatten(t, 1), 0, 1)); }},
      {"gather", [&](const Tensor& t) { return gather(square(select(t, 2, 3)), 0, slice(index, 1, 0, 2) * 0); }},
      {"scatter_add",
       [&](const Tensor& t) { return scatter_add(select(t, 0, 0), 0, index, source.to(t.dtype()) * t.select(2, 1)); }},
      {"take_along_dim", [&](const Tensor& t) { return take_along_dim(square(t), unsqueeze(index, 2), 1); }},
      {"masked_select", [&](const Tensor& t) { return masked_select(square(t), mask); }},
  };
  for (const auto& [name, f] : functions) {
    const auto apply = [&f = f](const Tensors& in) { return f(in[0]); };
    EXPECT_TRUE(autograd::gradcheck(apply, {x})) << name;
    EXPECT_TRUE(autograd::gradgradcheck(apply, {x})) << name;
    EXPECT_EQ(apply({x.to(float32)}).dtype(), float32) << name;
  }
}

TEST(ShapesTest, TheGradientOfManyPiecesIsTheSumOfTheirs) {
  const Tensor start = randn({4, 3}, float64), factors = randn({4, 3}, float64);
  const auto gradient = [&](bool create_graph, const std::function<Tensor(const Tensor&)>& f) {
    Tensor leaf = start.clone().requires_grad_();
    const Tensor x = leaf * 1.0;
    return autograd::grad({f(x)}, {leaf}, {.create_graph = create_graph})[0];
  };
  const std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [&](const Tensor& x) { return sum(stack(unbind(x)) * factors); },
      [&](const Tensor& x) { return sum(cat(split(x, 3)) * factors); },
      [&](const Tensor& x) {
        return sum(x * factors) + sum(slice(x, 1, 0, 3, 2)) * 0.0 + sum(narrow(x, 0, 1, 2)) * 0.0;
      },
  };
  for (const auto& f : functions) {
    EXPECT_TRUE(equal(gradient(false, f), factors));
    EXPECT_TRUE(equal(gradient(true, f), factors));
  }
  // Overlapping pieces, and a gradient that is used elsewhere too.
  const Tensor twice = gradient(false, [](const Tensor& x) {
    return sum(slice(x, 0, 0, 3) * 2.0) + sum(slice(x, 0, 1, 4) * 3.0) + sum(select(x, 1, 0)) + sum(x);
  });
  EXPECT_EQ(twice.to_vector<double>(), (std::vector<double>{4, 3, 3, 7, 6, 6, 7, 6, 6, 5, 4, 4}));
}

TEST(ShapesTest, Errors) {
  const Tensor x = counting({2, 3});
  expect_throws<ShapeError>([&] { movedim(x, {0, 1}, {0}); }, {"movedim: every axis needs its new position"});
  expect_throws<ShapeError>([&] { movedim(x, {0, 0}, {0, 1}); }, {"movedim", "twice"});
  expect_throws<ShapeError>([&] { movedim(x, 0, 2); }, {"movedim: axis must be in [-2, 2)"});
  expect_throws<ShapeError>([&] { diagonal(x, 0, 1, -1); }, {"diagonal: the two axes must differ; got 1 and -1"});
  expect_throws<ShapeError>([&] { diagonal(arange(3)); }, {"diagonal: axis"});
  expect_throws<IndexError>([&] { narrow(x, 1, 2, 2); }, {"narrow", "2 from 2 on", "[2, 3]"});
  expect_throws<IndexError>([&] { narrow(x, 1, 0, -1); }, {"narrow"});
  expect_throws<IndexError>([&] { narrow(x, 1, -4, 1); }, {"narrow"});
  expect_throws<ValueError>([&] { split(x, 0); }, {"split: the size of a piece must be at least 1"});
  expect_throws<ShapeError>([&] { split(x, {2, 2}, 1); }, {"split: the sizes", "add up to the size of axis 1"});
  expect_throws<ShapeError>([&] { split(x, {1}); }, {"split: the sizes"});
  expect_throws<ShapeError>([&] { split(x, {3, -1}); }, {"split: the sizes"});
  expect_throws<ValueError>([&] { chunk(x, 0); }, {"chunk: expected at least one chunk; got 0"});
  expect_throws<ShapeError>([&] { roll(x, {1}, {0, 1}); }, {"roll: every axis needs its shift"});
  expect_throws<ShapeError>([&] { repeat(x, {2}); }, {"repeat: every dimension", "[2] for shape [2, 3]"});
  expect_throws<ShapeError>([&] { repeat(x, {2, -1}); }, {"repeat"});
  expect_throws<ShapeError>([&] { repeat(x, {1, std::int64_t{1} << 62}); }, {"repeat: the sizes must stay within 64"});
  expect_throws<ShapeError>([&] { pad(x, {1}); }, {"pad: expected a pair of pads", "1 numbers"});
  expect_throws<ShapeError>([&] { pad(x, {1, 1, 1, 1, 1, 1}); }, {"pad: expected a pair"});
  expect_throws<ShapeError>([&] { pad(x, {-2, -2}); }, {"pad: negative pads", "-2 and -2 along axis 1"});
  expect_throws<ShapeError>([&] { pad(x, {-4, 5}); }, {"pad: negative pads"});
  expect_throws<ShapeError>([&] { outer(x, x); }, {"outer: both operands must be vectors"});
  expect_throws<ShapeError>([&] { trace(zeros({2, 2, 2})); }, {"trace: expected a matrix; got shape [2, 2, 2]"});
  expect_throws<ShapeError>([&] { view_as(x, zeros({5})); }, {"reshape: the new shape must have as many elements"});
  expect_throws<ShapeError>([&] { scatter_add(x, 0, tensor({{0, 0, 0, 0}}), x); }, {"scatter_add: the index"});
  expect_throws<ShapeError>([&] { scatter_add(x, 0, tensor({{0, 0}}), zeros({1, 1})); }, {"scatter_add: the index"});
  expect_throws<IndexError>([&] { scatter_add(x, 0, tensor({{2}}), x); }, {"scatter_add: indices must be in [0, 2)"});
  expect_throws<DtypeError>([&] { scatter_add(ones({1}, boolean), 0, tensor({0}), ones({1}, boolean)); },
                            {"scatter_add: booleans"});
  expect_throws<ShapeError>([&] { take_along_dim(x, tensor({0}), 1); }, {"take_along_dim: the index must have"});
  expect_throws<ShapeError>([&] { take_along_dim(x, zeros({5, 1}, int64), 1); }, {"take_along_dim: shapes must"});
  expect_throws<ShapeError>([&] { masked_select(x, tensor({true, false})); }, {"masked_select: shapes must"});
}

TEST(ShapesTest, SameOnAnyThreads) {
  const Tensor x = randn({300, 500}), index = randint(0, 300, {400, 500}), source = randn({400, 500});
  expectations::expect_same_on_any_threads([&] {
    return Tensors{scatter_add(x, 0, index, source), roll(x, {7, -3}, {0, 1}), repeat(x, {2, 3}),
                   pad(x, {3, -2, 1, 1}, 0.5), masked_select(x, gt(x, 0))};
  });
}

}  // namespace
}  // namespace tapegrad
