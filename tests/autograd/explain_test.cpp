// Why a gradient is missing or zero; and the tape as a table.
#include "expectations.hpp"

namespace tapegrad {
namespace {

using autograd::explain;
using autograd::GradientReason;

Tensor leaf(std::initializer_list<double> values) { return tensor(values, float64).requires_grad_(); }

void expect_reason(const Tensor& loss, const Tensor& parameter, GradientReason reason,
                   const std::vector<std::string>& parts) {
  const auto found = explain(loss, parameter);
  EXPECT_EQ(found.reason, reason) << found.to_string();
  for (const std::string& part : parts)
    EXPECT_NE(found.to_string().find(part), std::string::npos) << found.to_string() << " lacks " << part;
}

TEST(Explain, AGradientThatIsThere) {
  Tensor x = leaf({1, -3});
  const Tensor y = x * x, loss = y.sum();
  expect_reason(loss, x, GradientReason::nonzero, {"nonzero: ", "6"});
  expect_reason(loss, y, GradientReason::nonzero, {});
  expect_reason(y, x, GradientReason::nonzero, {"6"});  // no scalar
  expect_reason(x, x, GradientReason::nonzero, {"1"});
  const Tensor broken = (x * tensor({expectations::kNaN, 1.0}, float64)).sum();
  expect_reason(broken, x, GradientReason::nonzero, {"nan"});
  EXPECT_FALSE(x.grad().defined());
  loss.backward();  // still there
}

TEST(Explain, ALossWithoutATape) {
  Tensor x = leaf({1});
  expect_reason((x.detach() * 2).sum(), x, GradientReason::no_tape, {"NoGradGuard"});
  const NoGradGuard no_grad;
  expect_reason((x * 2).sum(), x, GradientReason::no_tape, {});
}

TEST(Explain, AParameterThatDoesntAsk) {
  Tensor x = leaf({1}), y = tensor({1.0}, float64);
  expect_reason((x * y).sum(), y, GradientReason::not_required, {"requires_grad_()"});
  expect_reason((x * y).sum(), tensor({1}), GradientReason::not_required, {"int64"});
}

TEST(Explain, ACutPath) {
  Tensor x = leaf({1, 2}), w = leaf({3, 4});
  expect_reason((x * w.detach()).sum(), w, GradientReason::detached, {"input 1 of mul"});
  expect_reason((x * (w * 2).detach()).sum(), w, GradientReason::not_reached, {"tape ends", "input 1 of mul"});
  expect_reason(x.sum(), w, GradientReason::not_reached, {"doesn't use"});
  expect_reason(x.sum(), x * 2, GradientReason::not_reached, {});
}

TEST(Explain, AFreedTape) {
  Tensor x = leaf({1});
  const Tensor loss = (x * x).sum();
  loss.backward();
  expect_reason(loss, x, GradientReason::freed, {"retain_graph"});
}

TEST(Explain, WhereAGradientVanishes) {
  Tensor x = leaf({-1, -2});
  expect_reason((relu(x * 2) * 3).sum(), x, GradientReason::zero, {"exactly zero", "vanishes in relu"});
  expect_reason((x * 0).sum(), x, GradientReason::zero, {"vanishes in mul"});
  expect_reason((x * 2).sum() * 0, x, GradientReason::zero, {"vanishes in mul"});
}

TEST(Trace, IsATableOfTheTape) {
  Tensor x = ones({2, 3}).requires_grad_(), w = ones({3}, float32).requires_grad_();
  const Tensor constant = ones({2, 3});
  const Tensor y = (reshape(x * w, {3, 2}).reshape({2, 3}) * constant).sum();
  const auto table = autograd::trace(y);
  ASSERT_EQ(table.rows.size(), 7u);
  EXPECT_EQ(table.rows[0].operation, "leaf");
  EXPECT_EQ(table.rows[0].bytes, 24);
  EXPECT_EQ(table.rows[0].entry, 0u);
  EXPECT_EQ(table.rows[2].operation, "multiply");
  EXPECT_EQ(table.rows[2].inputs, (std::vector<int>{1, 2}));
  EXPECT_EQ(table.rows[2].bytes, 24);
  EXPECT_EQ(table.rows[3].operation, "reshape");
  EXPECT_EQ(table.rows[3].bytes, 0);
  EXPECT_EQ(table.rows[5].inputs, (std::vector<int>{5, 0}));
  EXPECT_EQ(table.rows[6].operation, "sum");
  EXPECT_EQ(table.rows[6].shape, Shape());
  EXPECT_EQ(table.bytes(), 24 + 12 + 24 + 24 + 4);
}

TEST(Trace, PrintsItself) {
  Tensor x = leaf({1, 2});
  const Tensor y = exp(x * x).sum();
  EXPECT_EQ(fmt::format("{}", autograd::trace(y)),
            "number  operation  inputs  shape  dtype           bytes\n"
            "     1  leaf               [2]    float64            16\n"
            "     2  multiply   1, 1    [2]    float64            16\n"
            "     3  exp        2       [2]    float64            16\n"
            "     4  sum        3       []     float64             8\n"
            "4 rows, 56 bytes\n");
  y.backward();
  EXPECT_TRUE(autograd::trace(y).rows[1].freed);
  EXPECT_TRUE(autograd::trace(ones({2})).rows.empty());
}

}  // namespace
}  // namespace tapegrad
