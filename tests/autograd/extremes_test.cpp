// Arguments at the ends of their types, and functions and tensors that are not there.
#include <functional>
#include <limits>

#include "expectations.hpp"

namespace tapegrad {
namespace {

using namespace expectations;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max(),
                       kLeast = std::numeric_limits<std::int64_t>::min();

TEST(Extremes, PadsThatCropMoreThanThereIs) {
  const Tensor x = ones({2, 3, 4});
  EXPECT_EQ(pad(x, {-2, -2}).shape(), (Shape{2, 3, 0}));
  EXPECT_THROW(pad(x, {-kMost, -kMost}), ShapeError);
  EXPECT_THROW(pad(x, {kLeast, 0}), ShapeError);
  EXPECT_THROW(pad(x, {5, kLeast}), ShapeError);
}

TEST(Extremes, TrianglesFarFromTheDiagonal) {
  const Tensor x = ones({2, 3}), none = zeros({2, 3});
  EXPECT_TRUE(equal(tril(x, kMost), x));
  EXPECT_TRUE(equal(triu(x, kMost), none));
  EXPECT_TRUE(equal(tril(x, kLeast), none));
  EXPECT_TRUE(equal(triu(x, kLeast), x));
}

TEST(Extremes, AWeightOfZeroIsNeverDrawn) {
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(equal(multinomial(tensor({0.0, 1e-30, 1e300}, float64), 2), tensor({2, 1})));
}

TEST(Extremes, WhatIsNotThere) {
  const Tensor x = ones({3}).requires_grad_();
  EXPECT_THROW(autograd::trace(Tensor()), Error);
  EXPECT_THROW(x.register_hook(std::function<Tensor(const Tensor&)>()), ValueError);
  EXPECT_THROW(autograd::checkpoint([](const Tensors&) { return Tensor(); }, {x}), Error);
  EXPECT_THROW(autograd::checkpoint({}, {x}), ValueError);
  int calls = 0;
  const Tensor y = autograd::checkpoint([&](const Tensors& in) { return calls++ ? Tensor() : in[0] * 2; }, {x});
  EXPECT_THROW(y.sum().backward(), Error);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Extremes, ACheckpointWatchesItsConstants) {
  const Tensor x = ones({3}).requires_grad_(), factor = ones({3});
  const Tensor y = autograd::checkpoint([](const Tensors& in) { return in[0] * in[1]; }, {x, factor});
  factor.mutable_array().data<float>()[0] = 9;
  EXPECT_THROW(y.sum().backward(), GradError);
  EXPECT_FALSE(x.grad().defined());
}

}  // namespace
}  // namespace tapegrad
