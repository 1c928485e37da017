// Reduction kernels: every pattern of axes against plain loops, accuracy, NaN, empty arrays, threads.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <tapegrad/core/kernels/kernels.hpp>
#include <tapegrad/core/kernels/reduce.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core {
namespace {

template <class T>
Array random_array(const Shape& shape, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-1, 2);
  Array array(shape, dtype_of<T>);
  for (std::int64_t i = 0; i < array.numel(); ++i) array.data<T>()[i] = static_cast<T>(uniform(engine) * 100) / T(100);
  return array;
}

Shape axes_of(unsigned mask, int rank) {
  Shape axes;
  for (int axis = 0; axis < rank; ++axis)
    if (mask >> axis & 1) axes.push_back(axis);
  return axes;
}

/// The sum and the largest by plain loops, in long double.
struct Plain {
  std::vector<long double> sum, largest;
};
template <class T>
Plain reduce_plainly(const Array& x, const Shape& axes) {
  const Shape kept = kernels::reduced_shape(x.shape(), axes, true);
  const Strides strides = contiguous_strides(kept);
  const auto count = static_cast<std::size_t>(kept.numel());
  Plain plain{std::vector<long double>(count, 0),
              std::vector<long double>(count, -std::numeric_limits<long double>::infinity())};
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i, from = 0, to = 0;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      const std::int64_t position = rest % x.size(axis);
      rest /= x.size(axis);
      from += position * x.strides()[axis];
      if (kept[axis] != 1) to += position * strides[axis];
    }
    const auto value = static_cast<long double>(x.data<T>()[from]);
    plain.sum[static_cast<std::size_t>(to)] += value;
    plain.largest[static_cast<std::size_t>(to)] = std::max(plain.largest[static_cast<std::size_t>(to)], value);
  }
  return plain;
}

template <class T>
void expect_plain(const Array& x, const Shape& axes, double tolerance) {
  const Array sum = kernels::sum(x, axes, false), largest = kernels::amax(x, axes, true);
  const Plain plain = reduce_plainly<T>(x, axes);
  ASSERT_EQ(sum.numel(), static_cast<std::int64_t>(plain.sum.size()));
  std::int64_t wrong = 0;
  const double terms = static_cast<double>(x.numel()) / static_cast<double>(std::max<std::int64_t>(1, sum.numel()));
  for (std::int64_t i = 0; i < sum.numel(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    wrong += !(std::abs(static_cast<long double>(sum.data<T>()[i]) - plain.sum[k]) <= tolerance * terms);
    wrong += static_cast<long double>(largest.data<T>()[i]) != plain.largest[k];
  }
  EXPECT_EQ(wrong, 0) << x.shape().to_string() << " over " << axes.to_string();
}

TEST(Reduce, EveryPatternOfAxes) {
  for (const Shape& shape :
       {Shape{4, 5, 6, 7}, Shape{3, 1, 300, 2}, Shape{600, 2, 1, 33}, Shape{1, 1, 1, 1}, Shape{2, 3, 2, 3000}})
    for (unsigned mask = 0; mask < 16; ++mask) {
      const Shape axes = axes_of(mask, 4);
      expect_plain<float>(random_array<float>(shape), axes, 5e-7);
      expect_plain<double>(random_array<double>(shape), axes, 1e-15);
      expect_plain<std::int64_t>(random_array<std::int64_t>(shape), axes, 0);
      expect_plain<double>(random_array<double>({shape[3], shape[1], shape[0], shape[2]}).permuted({2, 1, 3, 0}), axes,
                           1e-15);
    }
  expect_plain<float>(random_array<float>({3, 100000}), {1}, 5e-7);
  expect_plain<float>(random_array<float>({100000, 3}), {0}, 5e-7);
  expect_plain<float>(random_array<float>({5}).expanded({1000, 5}), {0}, 5e-7);
}

TEST(Reduce, LongFloatSumsStayAccurate) {
  Array x({1 << 24}, Dtype::float32);
  kernels::fill(x, 0.1);
  EXPECT_NEAR(*kernels::sum(x, {0}, false).data<float>() / (0.1f * (1 << 24)), 1, 5e-7);
  const Array columns = kernels::sum(x.reshaped({1 << 20, 16}), {0}, false);
  for (int i = 0; i < 16; ++i) EXPECT_NEAR(columns.data<float>()[i] / (0.1f * (1 << 20)), 1, 1e-6);
}

TEST(Reduce, NaNWinsAndTheFirstIsChosen) {
  for (std::int64_t inner : {1, 40}) {
    Array x = random_array<float>({70, inner});
    x.data<float>()[33 * inner] = x.data<float>()[50 * inner] = 5;
    const kernels::Extremes largest = kernels::max_along(x, 0, false);
    EXPECT_EQ(largest.values.data<float>()[0], 5);
    EXPECT_EQ(largest.indices.data<std::int64_t>()[0], 33);
    x.data<float>()[40 * inner] = x.data<float>()[60 * inner] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(kernels::amax(x, {0}, false).data<float>()[0]));
    EXPECT_TRUE(std::isnan(kernels::amin(x, {0}, false).data<float>()[0]));
    EXPECT_EQ(kernels::min_along(x, 0, true).indices.data<std::int64_t>()[0], 40);
  }
}

TEST(Reduce, EmptyArraysAndScalars) {
  EXPECT_EQ(*kernels::sum(Array({0}, Dtype::float32), {0}, false).data<float>(), 0);
  const Array zeros = kernels::sum(Array({0, 3}, Dtype::float64), {0}, false);
  EXPECT_EQ(zeros.shape(), Shape{3});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(zeros.data<double>()[i], 0);
  EXPECT_EQ(kernels::sum(Array({0, 3}, Dtype::float64), {1}, true).shape(), (Shape{0, 1}));
  Array one({}, Dtype::float32);
  *one.data<float>() = 7;
  EXPECT_EQ(*kernels::sum(one, {}, false).data<float>(), 7);
  EXPECT_EQ(*kernels::max_along(one, 0, false).indices.data<std::int64_t>(), 0);
  Array flags({3}, Dtype::boolean);
  kernels::fill(flags, 1);
  EXPECT_EQ(*kernels::sum(flags, {0}, false).data<std::int64_t>(), 3);
  EXPECT_EQ(*kernels::amin(flags, {0}, false).data<bool>(), true);
}

TEST(Reduce, EveryNumberOfThreadsGivesTheSameBits) {
  const Array x = random_array<float>({1000, 333});
  const int before = num_threads();
  for (const Shape& axes : {Shape{0}, Shape{1}, Shape{0, 1}}) {
    set_num_threads(1);
    const Array one = kernels::sum(x, axes, false);
    set_num_threads(3);
    const Array three = kernels::sum(x, axes, false);
    EXPECT_EQ(std::memcmp(one.data<char>(), three.data<char>(), static_cast<std::size_t>(one.numel()) * 4), 0);
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tapegrad::core
