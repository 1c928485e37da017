#include "gradcheck_table.hpp"

namespace tapegrad::table {
namespace {

/// Distinct from `signed_values` of the same seed position, so that no two elements tie.
Tensor other_values(const Shape& shape) { return signed_values(shape) * 1.5 + 0.01; }

void add_scalars(Rows& rows) {
  add_unary(
      rows, "add", [](const Tensor& x) { return x + 1.5; }, signed_values);
  add_unary(
      rows, "subtract", [](const Tensor& x) { return x - 1.5; }, signed_values);
  add_unary(
      rows, "subtract", [](const Tensor& x) { return 1.5 - x; }, signed_values);
  add_unary(
      rows, "multiply", [](const Tensor& x) { return x * -2.5; }, signed_values);
  add_unary(
      rows, "divide", [](const Tensor& x) { return x / -2.5; }, signed_values);
  add_unary(
      rows, "divide", [](const Tensor& x) { return 1.5 / x; }, signed_values);
  for (const double exponent : {3.0, 2.0, 1.0, 0.0, -1.0, 0.5})
    add_unary(
        rows, "pow", [exponent](const Tensor& x) { return pow(x, exponent); }, positive_values);
  add_unary(
      rows, "pow", [](const Tensor& x) { return pow(x, 3); }, signed_values);
  add_unary(
      rows, "pow", [](const Tensor& x) { return pow(2.5, x); }, signed_values);
}

void add_choices(Rows& rows) {
  const auto condition = [](const Tensor& a, const Tensor& b) {
    const Shape shape = broadcast_shapes("where", a.shape(), b.shape());
    return reshape(eq(arange(shape.numel()) - 2 * to(arange(shape.numel()) / 2.0, int64), 0), shape);
  };
  add_binary(
      rows, "where", [=](const Tensor& a, const Tensor& b) { return where(condition(a, b), a, b); }, signed_values,
      signed_values);
  add_unary(
      rows, "where", [=](const Tensor& x) { return where(condition(x, x), x, 2.5); }, signed_values);
  add_unary(
      rows, "where", [=](const Tensor& x) { return where(condition(x, x), 2.5, x); }, signed_values);
  add_binary(
      rows, "maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); }, signed_values, other_values);
  add_binary(
      rows, "minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); }, signed_values, other_values);
  add_unary(
      rows, "clamp", [](const Tensor& x) { return clamp(x, -0.25, 0.7501); }, signed_values);
}

}  // namespace

void add_elementwise_rows(Rows& rows) {
  add_binary(
      rows, "add", [](const Tensor& a, const Tensor& b) { return a + b; }, signed_values, signed_values);
  add_binary(
      rows, "subtract", [](const Tensor& a, const Tensor& b) { return a - b; }, signed_values, signed_values);
  add_binary(
      rows, "multiply", [](const Tensor& a, const Tensor& b) { return a * b; }, signed_values, signed_values);
  add_binary(
      rows, "divide", [](const Tensor& a, const Tensor& b) { return a / b; }, signed_values, signed_values);
  add_binary(
      rows, "pow", [](const Tensor& a, const Tensor& b) { return pow(a, b); }, positive_values, signed_values);
  add_scalars(rows);
  add_choices(rows);
  using Unary = Tensor (*)(const Operand&);
  const std::pair<const char*, Unary> anywhere[] = {
      {"multiply", neg},  {"abs", abs},           {"sign", sign},   {"exp", exp},
      {"square", square}, {"sin", sin},           {"cos", cos},     {"tanh", tanh},
      {"erf", erf},       {"sigmoid", sigmoid},   {"relu", relu},   {"softplus", softplus},
      {"silu", silu},     {"divide", reciprocal}, {"expm1", expm1}, {"atan", atan}};
  for (const auto& [name, f] : anywhere) add_unary(rows, name, f, signed_values);
  const std::pair<const char*, Unary> above_zero[] = {{"log", log}, {"log1p", log1p}, {"sqrt", sqrt}};
  for (const auto& [name, f] : above_zero) add_unary(rows, name, f, positive_values);
  const std::size_t before = rows.size();
  add_unary(rows, "divide", rsqrt, positive_values);
  for (std::size_t i = before; i < rows.size(); ++i) rows[i].through = {"sqrt"};
  const std::size_t sharper = rows.size();
  add_unary(
      rows, "softplus", [](const Tensor& x) { return softplus(x, 2.5, 1.5); }, signed_values);
  for (std::size_t i = sharper; i < rows.size(); ++i) rows[i].through = {"multiply", "divide", "where"};
  add_unary(
      rows, "gelu", [](const Tensor& x) { return gelu(x); }, signed_values);
  add_unary(
      rows, "gelu", [](const Tensor& x) { return gelu(x, GeluApproximation::tanh); }, signed_values);
  add_unary(
      rows, "relu", [](const Tensor& x) { return leaky_relu(x, 0.3); }, signed_values);
  const Draw between_steps = [](const Shape& shape) { return rand(shape, float64) * 0.3 + 1.1; };
  for (const auto& [name, f] : {std::pair<const char*, Unary>{"floor", floor}, {"ceil", ceil}, {"round", round}})
    add_unary(rows, name, f, between_steps);
}

}  // namespace tapegrad::table
