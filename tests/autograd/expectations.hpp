// What the tests of fused operations expect: values of plain loops, texts of errors, equal bits on any threads.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>

namespace tapegrad::expectations {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Values = std::vector<double>;

inline double tolerance(Dtype dtype) { return dtype == float32 ? 1e-5 : 1e-12; }

inline void expect_near(const Tensor& tensor, const Values& expected, double tolerance) {
  const Values values = tensor.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::isnan(values[i]), std::isnan(expected[i])) << "element " << i;
    if (std::isnan(expected[i]) || values[i] == expected[i]) continue;
    ASSERT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
  }
}

/// The bytes of a tensor's elements: unlike values, they tell 0 from -0, and a NaN equals itself.
inline std::string bytes_of(const Tensor& tensor) {
  const core::Array array = tensor.array().contiguous();
  return {array.data<char>(), static_cast<std::size_t>(array.numel() * size_of(array.dtype()))};
}

/// The same bits on 1, 2, 3 and 8 threads.
inline void expect_same_on_any_threads(const std::function<Tensors()>& f) {
  const int before = num_threads();
  std::vector<std::string> expected;
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    const Tensors results = f();
    for (std::size_t i = 0; i < results.size(); ++i)
      if (threads == 1)
        expected.push_back(bytes_of(results[i]));
      else
        EXPECT_TRUE(bytes_of(results[i]) == expected.at(i)) << "result " << i << " on " << threads << " threads";
  }
  set_num_threads(before);
}

template <class E, class F>
void expect_throws(F&& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const E& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << " lacks " << part;
  }
}

/// Tests that run in float32 and in float64.
class ForBothDtypes : public testing::TestWithParam<Dtype> {};

/// Softmax (or its logarithm) of each row of a matrix.
inline Values softmax_rows(const Values& x, std::size_t width, bool logarithm = false) {
  Values y(x.size());
  for (std::size_t row = 0; row < x.size(); row += width) {
    const double top = *std::max_element(x.begin() + row, x.begin() + row + width);
    double total = 0;
    for (std::size_t i = row; i < row + width; ++i) total += std::exp(x[i] - top);
    for (std::size_t i = row; i < row + width; ++i)
      y[i] = logarithm ? x[i] - top - std::log(total) : std::exp(x[i] - top) / total;
  }
  return y;
}

}  // namespace tapegrad::expectations
