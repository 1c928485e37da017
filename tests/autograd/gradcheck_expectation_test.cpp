// The macros for a user's own suite.
#include <gtest/gtest-spi.h>

#include "expectations.hpp"

namespace tapegrad {
namespace {

Tensor product(const Tensor& a, const Tensor& b) { return a * b; }
Tensor wrong_square(const Tensor& x) {
  return autograd::record("wrong_square", (x * x).detach(), {x}, [x](const Tensor& g) { return Tensors{g * x}; });
}

TEST(GradcheckExpectation, Passes) {
  const Tensor x = tensor({1.0, 2.0}, float64);
  TAPEGRAD_GRADCHECK(product, x, tensor({3.0, 4.0}, float64));
  TAPEGRAD_GRADGRADCHECK(product, x, x) << "streams";
  const auto of_list = [](const Tensors& in) { return in[0] * exp(in[1]); };
  TAPEGRAD_GRADCHECK(of_list, x, x);
  for (const double scale : {1.0, 2.0}) TAPEGRAD_GRADCHECK([=](const Tensor& in) { return in * scale; }, x);
}

TEST(GradcheckExpectation, FailsWithTheReport) {
  EXPECT_NONFATAL_FAILURE(TAPEGRAD_GRADCHECK(wrong_square, tensor({1.0, 2.0}, float64)), "wrong_square");
  EXPECT_NONFATAL_FAILURE(TAPEGRAD_GRADCHECK(wrong_square, tensor({1.0, 2.0}, float64)) << "for this", "for this");
}

}  // namespace
}  // namespace tapegrad
