#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <tapegrad/core/array.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core {
namespace {

template <class T>
Array counting(const Shape& shape) {
  Array array(shape, dtype_of<T>);
  for (std::int64_t i = 0; i < array.numel(); ++i) array.data<T>()[i] = static_cast<T>(i);
  return array;
}

/// The elements in row-major order, found one by one through the strides.
template <class T>
std::vector<T> elements(const Array& array) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < array.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = array.rank() - 1; axis >= 0; --axis) {
      offset += rest % array.size(axis) * array.strides()[axis];
      rest /= array.size(axis);
    }
    values.push_back(array.data<T>()[offset]);
  }
  return values;
}

using Floats = std::vector<float>;

TEST(ArrayTest, IsContiguousAfterAllocation) {
  const Array array({2, 3}, float32);
  EXPECT_TRUE(array.is_contiguous());
  EXPECT_EQ(array.strides(), (Strides{3, 1}));
  EXPECT_TRUE(Array({}, int64).is_contiguous());
  EXPECT_TRUE(Array({4, 0, 2}, float64).transposed(0, 2).is_contiguous());
}

TEST(ArrayTest, ViewsShareStorage) {
  const Array array = counting<float>({2, 3});
  const Array view = array.transposed(0, 1);
  EXPECT_EQ(view.storage().get(), array.storage().get());
  EXPECT_EQ(elements<float>(view), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_EQ(elements<float>(array.sliced(1, 2, 2, -2)), (Floats{2, 0, 5, 3}));
  EXPECT_EQ(elements<float>(array.sliced(0, 1, 1, 1).expanded({2, 2, 3})),
            (Floats{3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(counting<float>({2, 3, 4}).permuted({2, 0, 1}).shape(), (Shape{4, 2, 3}));
}

TEST(ArrayTest, ReshapedViewWhereStridesAllowIt) {
  const Array array = counting<float>({2, 3, 4});
  EXPECT_TRUE(array.reshaped_view({6, 2, 2}));
  EXPECT_TRUE(array.transposed(0, 1).reshaped_view({3, 2, 2, 2}));
  EXPECT_FALSE(array.transposed(0, 1).reshaped_view({6, 4}));
  EXPECT_TRUE(array.sliced(2, 0, 2, 2).reshaped_view({6, 2}));
  EXPECT_TRUE(array.sliced(0, 1, 1, 1).expanded({5, 3, 4}).reshaped_view({5, 12}));
  EXPECT_FALSE(array.sliced(0, 1, 1, 1).expanded({5, 3, 4}).reshaped_view({60}));
  const Array copied = array.transposed(0, 1).reshaped({6, 4});
  EXPECT_NE(copied.storage().get(), array.storage().get());
  EXPECT_EQ(elements<float>(copied), elements<float>(array.transposed(0, 1)));
}

TEST(ArrayTest, EmptyAndScalarArrays) {
  EXPECT_EQ(Array({0, 3}, float32).copy().numel(), 0);
  EXPECT_EQ(Array({0, 3}, float32).reshaped({3, 0}).shape(), (Shape{3, 0}));
  const Array scalar = counting<float>({});
  EXPECT_EQ(elements<float>(scalar.copy()), Floats{0});
  EXPECT_EQ(scalar.reshaped({1, 1}).shape(), (Shape{1, 1}));
  EXPECT_EQ(counting<float>({3}).sliced(0, 3, 0, 1).copy().numel(), 0);
}

template <class T>
void expect_copies(const Shape& shape, const Shape& axes) {
  const Array view = counting<T>(shape).permuted(axes);
  EXPECT_EQ(elements<T>(view.copy()), elements<T>(view)) << shape.to_string() << axes.to_string();
  const Array target = Array(shape, dtype_of<T>).permuted(axes);
  copy_into(target, view.copy());
  EXPECT_EQ(elements<T>(target), elements<T>(view)) << shape.to_string() << axes.to_string();
}

TEST(ShapeTest, ElementsAreCountedWithoutOverflow) {
  constexpr std::int64_t k32 = std::int64_t{1} << 32;
  EXPECT_EQ((Shape{k32, k32 / 4}).numel(), k32 * (k32 / 4));
  EXPECT_EQ((Shape{0, k32, k32}).numel(), 0);
  EXPECT_EQ((Shape{k32, k32, 0}).numel(), 0);
  EXPECT_THROW((Shape{k32, k32}).numel(), ShapeError);
  EXPECT_THROW(Array({k32 / 4, k32}, float64), Error);
  EXPECT_THROW(counting<float>({1}).expanded({k32, k32}), ShapeError);
  EXPECT_EQ(Array({k32, k32, 0}, float32).numel(), 0);
}

TEST(CopyTest, EveryOrderOfAxes) {
  for (const Shape& shape : {Shape{2, 17, 3, 33}, Shape{1, 16, 1, 8}, Shape{5, 1, 64, 9}}) {
    std::vector<std::int64_t> axes{0, 1, 2, 3};
    do {
      expect_copies<float>(shape, Shape(axes));
      expect_copies<double>(shape, Shape(axes));
      expect_copies<std::int64_t>(shape, Shape(axes));
      expect_copies<bool>(shape, Shape(axes));
    } while (std::next_permutation(axes.begin(), axes.end()));
  }
}

TEST(CopyTest, ReversedAndBroadcastSources) {
  const Array array = counting<double>({4, 5});
  const Array reversed = array.sliced(0, 3, 4, -1).sliced(1, 4, 5, -1);
  EXPECT_EQ(elements<double>(reversed.copy()).front(), 19.0);
  EXPECT_EQ(elements<double>(reversed.copy()).back(), 0.0);
  const Array target({3, 4, 5}, float64);
  copy_into(target, array.sliced(1, 2, 1, 1));
  EXPECT_EQ(elements<double>(target), elements<double>(array.sliced(1, 2, 1, 1).expanded({3, 4, 5})));
}

TEST(CopyTest, Converts) {
  Array array({6}, float64);
  const std::vector<double> values{-1.7, 0.0, 2.9, std::nan(""), 1e300, -1e300};
  std::copy(values.begin(), values.end(), array.data<double>());
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(elements<std::int64_t>(array.converted(int64)),
            (std::vector<std::int64_t>{-1, 0, 2, lowest, std::numeric_limits<std::int64_t>::max(), lowest}));
  EXPECT_EQ(elements<bool>(array.converted(boolean)), (std::vector<bool>{true, false, true, true, true, true}));
  EXPECT_EQ(elements<float>(array.converted(float32))[4], std::numeric_limits<float>::infinity());
  EXPECT_EQ(array.converted(float64).storage().get(), array.storage().get());
  EXPECT_EQ(elements<double>(counting<std::int64_t>({2, 3}).transposed(0, 1).converted(float64)),
            (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(CopyTest, SameForAnyNumberOfThreads) {
  const int before = num_threads();
  const Array array = counting<float>({300, 70, 11});
  for (const Shape& axes : {Shape{0, 1, 2}, Shape{2, 0, 1}, Shape{1, 0, 2}, Shape{2, 1, 0}}) {
    const std::vector<float> expected = elements<float>(array.permuted(axes));
    for (int threads : {1, 2, 3}) {
      set_num_threads(threads);
      EXPECT_EQ(elements<float>(array.permuted(axes).copy()), expected);
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tapegrad::core
