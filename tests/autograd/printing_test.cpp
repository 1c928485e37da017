#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/shaping.hpp>

namespace tapegrad {
namespace {

TEST(PrintingTest, VectorsAndScalars) {
  EXPECT_EQ(tensor({1.0, 2.0, -3.0}).to_string(), "tensor([ 1.,  2., -3.], dtype=float32)");
  EXPECT_EQ(tensor({1, 20}).to_string(), "tensor([ 1, 20], dtype=int64)");
  EXPECT_EQ(tensor({true, false}).to_string(), "tensor([ true, false], dtype=boolean)");
  EXPECT_EQ(tensor(2.5, float64).to_string(), "tensor(2.5000, dtype=float64)");
  EXPECT_EQ(fmt::format("{}", tensor({0.25, 10.0})), "tensor([ 0.2500, 10.0000], dtype=float32)");
}

TEST(PrintingTest, RowsAreAligned) {
  EXPECT_EQ(tensor({{1.0, -2.0}, {30.0, 4.0}}).to_string(),
            "tensor([[ 1., -2.],\n"
            "        [30.,  4.]], dtype=float32)");
  EXPECT_EQ(zeros({2, 1, 2}, int64).to_string(),
            "tensor([[[0, 0]],\n"
            "\n"
            "        [[0, 0]]], dtype=int64)");
}

TEST(PrintingTest, ValuesThatAreNoNumbers) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(tensor({1.0, std::nan(""), inf, -inf}).to_string(), "tensor([  1.,  nan,  inf, -inf], dtype=float32)");
  EXPECT_EQ(tensor({std::nan("")}).to_string(), "tensor([nan], dtype=float32)");
}

TEST(PrintingTest, WideRangesTakeAnExponent) {
  EXPECT_EQ(tensor({1.5, 1e-7}).to_string(), "tensor([1.5000e+00, 1.0000e-07], dtype=float32)");
  EXPECT_EQ(tensor({1e10}).to_string(), "tensor([1.0000e+10], dtype=float32)");
}

TEST(PrintingTest, UndefinedAndEmpty) {
  EXPECT_EQ(Tensor().to_string(), "tensor(undefined)");
  EXPECT_EQ(zeros({0}).to_string(), "tensor([], dtype=float32)");
  EXPECT_EQ(zeros({2, 0}).to_string(), "tensor([], shape=[2, 0], dtype=float32)");
}

TEST(PrintingTest, LongAxesAreSummarised) {
  EXPECT_EQ(arange(1001).to_string(), "tensor([   0,    1,    2, ...,  998,  999, 1000], shape=[1001], dtype=int64)");
  const std::string text = zeros({1000, 2}, int64).to_string();
  EXPECT_EQ(text,
            "tensor([[0, 0],\n        [0, 0],\n        [0, 0],\n        ...,\n        [0, 0],\n        [0, 0],\n"
            "        [0, 0]], shape=[1000, 2], dtype=int64)");
}

TEST(ToVectorTest, ConvertsAndFollowsStrides) {
  const Tensor x = tensor({{1.5, 0.0}, {-2.5, 4.0}});
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1.5f, 0, -2.5f, 4}));
  EXPECT_EQ(x.transpose(0, 1).to_vector<double>(), (std::vector<double>{1.5, -2.5, 0, 4}));
  EXPECT_EQ(x.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, -2, 4}));
  EXPECT_EQ(x.to_vector<bool>(), (std::vector<bool>{true, false, true, true}));
  EXPECT_TRUE(zeros({0, 3}).to_vector<float>().empty());
}

}  // namespace
}  // namespace tapegrad
