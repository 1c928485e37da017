// index(x, {...}) by NumPy's rules: values, views, gradients, errors.
#include "expectations.hpp"

namespace tapegrad {
namespace {

using expectations::expect_throws;
using Integers = std::vector<std::int64_t>;
using Items = std::vector<IndexItem>;

Tensor counting(const Shape& shape, Dtype dtype = int64) { return reshape(arange(shape.numel()), shape).to(dtype); }
Integers integers(const Tensor& x) { return x.to_vector<std::int64_t>(); }
void expect_index(const Items& items, const Shape& shape, const Integers& values) {
  const Tensor found = index(counting({2, 3, 4}), items);
  EXPECT_EQ(found.shape(), shape);
  EXPECT_EQ(integers(found), values);
}

TEST(IndexTest, BasicItems) {
  expect_index({1, 2, 3}, {}, {23});
  expect_index({-1, -3, 0}, {}, {12});
  expect_index({0, Slice{1, 3}, 0}, {2}, {4, 8});
  expect_index({1, ellipsis, Slice{.step = 3}}, {3, 2}, {12, 15, 16, 19, 20, 23});
  expect_index({ellipsis, 1, 1}, {2}, {5, 17});
  expect_index({0, 0, newaxis}, {1, 4}, {0, 1, 2, 3});
  expect_index({newaxis, 0, newaxis, 0, 0}, {1, 1}, {0});
  expect_index({0, 0, Slice{.step = -1}}, {4}, {3, 2, 1, 0});
  expect_index({0, 0, Slice{-1, 0, -2}}, {2}, {3, 1});
  expect_index({0, 0, Slice{2, 9}}, {2}, {2, 3});
  expect_index({0, 0, Slice{3, 1}}, {0}, {});
  expect_index({0, 0, Slice{0, 3, -1}}, {0}, {});
  expect_index({0, 0, Slice{100, -100, -100}}, {1}, {3});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_index({0, 0, Slice{-most - 1, most, most}}, {1}, {0});
  expect_index({0, 0, Slice{most, -most - 1, -most - 1}}, {1}, {3});
  EXPECT_EQ(index(counting({2, 3}), {}).shape(), (Shape{2, 3}));
  EXPECT_EQ(index(tensor(5), {ellipsis, newaxis}).shape(), (Shape{1}));
  EXPECT_EQ(index(counting({0, 3}), {Slice{.step = -1}, std::size_t{1}}).shape(), (Shape{0}));
}

TEST(IndexTest, BasicItemsGiveViews) {
  const Tensor x = counting({2, 3, 4});
  const Tensor view = index(x, {ellipsis, Slice{1, {}, 2}, newaxis});
  EXPECT_EQ(view.array().storage().get(), x.array().storage().get());
  EXPECT_EQ(integers(x.index({1, -1, Slice{2, {}}})), (Integers{22, 23}));
  EXPECT_NE(index(x, {Slice{.step = -1}}).array().storage().get(), x.array().storage().get());
}

TEST(IndexTest, TensorsAndMasks) {
  const Tensor rows = tensor({1, 0}), columns = tensor({-1, 2});
  expect_index({rows, 0, 0}, {2}, {12, 0});
  expect_index({rows, columns, columns}, {2}, {23, 10});
  expect_index({0, tensor({{0, -1}, {1, 1}}), 1}, {2, 2}, {1, 9, 5, 5});
  expect_index({unsqueeze(rows, 1), columns, 0}, {2, 2}, {20, 20, 8, 8});
  expect_index({Slice{}, columns, 0}, {2, 2}, {8, 8, 20, 20});
  // In place where they stand together, in front where they don't; integers count among them.
  EXPECT_EQ(index(counting({2, 3, 4}), {Slice{}, rows, columns}).shape(), (Shape{2, 2}));
  EXPECT_EQ(index(counting({2, 3, 4}), {rows, Slice{}, columns}).shape(), (Shape{2, 3}));
  EXPECT_EQ(index(counting({5, 3, 4}), {0, Slice{}, columns}).shape(), (Shape{2, 3}));
  EXPECT_EQ(index(counting({5, 3, 4}), {Slice{}, 0, columns}).shape(), (Shape{5, 2}));
  expect_index({1, tensor({true, false, true}), 3}, {2}, {15, 23});
  expect_index({lt(counting({2, 3}), 2), 0}, {2}, {0, 4});
  expect_index({gt(counting({2, 3, 4}), 21)}, {2}, {22, 23});
  expect_index({tensor({false, false})}, {0, 3, 4}, {});
  expect_index({zeros({0}, int64)}, {0, 3, 4}, {});
  expect_index({tensor(1), tensor(-1), tensor(0)}, {}, {20});
  EXPECT_EQ(index(tensor({true, false}), {tensor({1, 1, 0})}).to_vector<bool>(),
            (std::vector<bool>{false, false, true}));
}

TEST(IndexTest, GradientsOfBothOrders) {
  const Tensor x = randn({3, 3, 4}, float64);
  const std::vector<Items> indices = {
      {1, Slice{.step = -2}, ellipsis, newaxis},
      {tensor({0, 2, 0})},
      {tensor({0, -1}), Slice{1, {}}, tensor({{3}, {1}})},
      {ellipsis, tensor({0, 0, 2}), newaxis},
      {lt(randn({3, 3}), 0), Slice{.step = 3}},
      {0, newaxis, tensor({1, 1})},
  };
  for (const Items& items : indices) {
    const auto apply = [&](const Tensors& in) { return square(index(in[0], items)); };
    EXPECT_TRUE(autograd::gradcheck(apply, {x}));
    EXPECT_TRUE(autograd::gradgradcheck(apply, {x}));
  }
  Tensor leaf = ones({3});
  leaf.requires_grad_();
  index(leaf, {tensor({0, 2, 0})}).backward(tensor({1.0, 2.0, 4.0}));
  EXPECT_EQ(leaf.grad().to_vector<float>(), (std::vector<float>{5, 0, 2}));
}

TEST(IndexTest, Errors) {
  const Tensor x = counting({2, 3, 4});
  expect_throws<IndexError>([&] { index(x, {0, 3}); }, {"index: a position must be in [-3, 3)", "axis 1", "got 3"});
  expect_throws<IndexError>([&] { index(x, {newaxis, ellipsis, -5}); }, {"axis 2 of shape [2, 3, 4]; got -5"});
  expect_throws<IndexError>([&] { index(x, {Slice{}, tensor({0, 3})}); }, {"index: positions", "axis 1", "got 3"});
  expect_throws<ShapeError>([&] { index(x, {0, 0, 0, 0}); }, {"index: there must not be more positions than axes"});
  expect_throws<ShapeError>([&] { index(x, {ones({2, 3}, boolean), 0, 0}); }, {"got 4 positions"});
  expect_throws<ValueError>([&] { index(x, {ellipsis, ellipsis}); }, {"index: an ellipsis may stand once; got 2"});
  expect_throws<ValueError>([&] { index(x, {Slice{.step = 0}}); }, {"index: the step of a slice must not be 0"});
  expect_throws<DtypeError>([&] { index(x, {tensor({0.5})}); },
                            {"index: tensors must be int64 or boolean; got float32"});
  expect_throws<ShapeError>([&] { index(x, {tensor({true})}); },
                            {"index: a mask must have the sizes", "[1]", "[2, 3, 4]"});
  expect_throws<ShapeError>([&] { index(x, {tensor(true)}); }, {"index: a mask must have at least one dimension"});
  expect_throws<ShapeError>([&] { index(x, {tensor({0, 1}), tensor({0, 1, 2})}); }, {"index: shapes must broadcast"});
}

}  // namespace
}  // namespace tapegrad
