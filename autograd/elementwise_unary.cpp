// Functions of one operand: value and gradient side by side.
#include <cmath>
#include <limits>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>

namespace tapegrad {

using autograd::check_defined;

namespace {

using Kernel = Array (*)(const Array&);

/// kernel(x), where dtypes below `least` are converted to it; the gradient is rule(g, x).
template <class Rule>
Tensor by_input(const char* name, const Tensor& x, Dtype least, Kernel kernel, Rule rule) {
  check_defined(name, x);
  if (x.dtype() < least) return by_input(name, to(x, least), least, kernel, rule);
  const auto value = [&] { return kernel(x.array()); };
  return record(name, value, {x}, [x, rule](const Tensor& g) { return Tensors{rule(g, x)}; });
}
/// The same with the gradient rule(g, y), for the result y, of functions of floating numbers.
template <class Rule>
Tensor by_result(const char* name, const Tensor& x, Kernel kernel, Rule rule) {
  check_defined(name, x);
  if (!is_floating(x.dtype())) return by_result(name, to(x, float32), kernel, rule);
  const auto value = [&] { return kernel(x.array()); };
  return record(name, value, {x}, [rule](const Tensor& g, const Tensor& y) { return Tensors{rule(g, y)}; });
}

/// A rule that a kernel computes in one pass, unless the sweep itself is recorded.
template <class Rule>
auto fused(Array (*kernel)(const Array&, const Array&), Rule rule) {
  return [kernel, rule](const Tensor& g, const Tensor& saved) {
    return is_recording({g, saved}) ? rule(g, saved) : Tensor(kernel(g.array(), saved.array()));
  };
}

/// For functions that are constant between their steps.
Tensor record_step(const char* name, Kernel kernel, const Tensor& x) {
  check_defined(name, x);
  const auto value = [&] { return kernel(x.array()); };
  return record(name, value, {x}, [](const Tensor& g) { return Tensors{zeros_like(g)}; });
}

/// v where x is positive, v * slope elsewhere: linear in v, so that its gradient is the same of g. Recorded as a relu.
Tensor leaky(const Tensor& v, const Tensor& x, double slope) {
  const auto value = [&] { return kernels::leaky(v.array(), x.array(), slope); };
  return record("relu", value, {v}, [x, slope](const Tensor& g) { return Tensors{leaky(g, x, slope)}; });
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

}  // namespace

Tensor off_poles(const Tensor& g, const Tensor& at) {
  const Tensor zeros = eq(at, 0);
  return any(zeros).item() ? where(logical_and(zeros, eq(g, 0)), kInfinity, at) : at;
}

Tensor operator-(const Operand& a) { return neg(a); }
Tensor neg(const Operand& x) { return x * -1; }
Tensor sign(const Operand& x) { return x.dtype() == boolean ? clone(x) : record_step("sign", kernels::sign, x); }
Tensor floor(const Operand& x) { return record_step("floor", kernels::floor, x); }
Tensor ceil(const Operand& x) { return record_step("ceil", kernels::ceil, x); }
Tensor round(const Operand& x) { return record_step("round", kernels::round, x); }

Tensor abs(const Operand& x) {
  return by_input("abs", x, int64, kernels::absolute, [](auto& g, auto& x) { return g * sign(x); });
}
Tensor square(const Operand& x) {
  return by_input("square", x, int64, kernels::square, [](auto& g, auto& x) { return g * (x * 2); });
}
Tensor relu(const Operand& x) {
  const auto rule = [](auto& g, auto& x) { return where(gt(x, 0), g, 0); };
  return by_input("relu", x, int64, kernels::relu, fused(kernels::relu_backward, rule));
}
Tensor leaky_relu(const Operand& x, double negative_slope) {
  if (!is_floating(x.dtype())) return leaky_relu(to(x, float32), negative_slope);
  return leaky(x, x, negative_slope);
}
Tensor exp(const Operand& x) {
  return by_result("exp", x, kernels::exp, [](auto& g, auto& y) { return g * y; });
}
Tensor expm1(const Operand& x) {
  return by_result("expm1", x, kernels::expm1, [](auto& g, auto& y) { return g * (y + 1); });
}
Tensor log(const Operand& x) {
  return by_input("log", x, float32, kernels::log, [](auto& g, auto& x) { return g / off_poles(g, x); });
}
Tensor log1p(const Operand& x) {
  return by_input("log1p", x, float32, kernels::log1p, [](auto& g, auto& x) { return g / off_poles(g, x + 1); });
}
Tensor sqrt(const Operand& x) {
  const auto rule = [](auto& g, auto& y) { return g / (off_poles(g, y) * 2); };
  return by_result("sqrt", x, kernels::sqrt, fused(kernels::sqrt_backward, rule));
}
Tensor rsqrt(const Operand& x) { return 1 / sqrt(x); }
Tensor reciprocal(const Operand& x) { return 1 / x; }
Tensor sin(const Operand& x) {
  return by_input("sin", x, float32, kernels::sin, [](auto& g, auto& x) { return g * cos(x); });
}
Tensor cos(const Operand& x) {
  return by_input("cos", x, float32, kernels::cos, [](auto& g, auto& x) { return -(g * sin(x)); });
}
Tensor atan(const Operand& x) {
  return by_input("atan", x, float32, kernels::atan, [](auto& g, auto& x) { return g / (square(x) + 1); });
}
Tensor tanh(const Operand& x) {
  const auto rule = [](auto& g, auto& y) { return g * (1 - square(y)); };
  return by_result("tanh", x, kernels::tanh, fused(kernels::tanh_backward, rule));
}
Tensor erf(const Operand& x) {
  const auto rule = [](auto& g, auto& x) { return g * (exp(-square(x)) * kTwoOverSqrtPi); };
  return by_input("erf", x, float32, kernels::erf, rule);
}
Tensor sigmoid(const Operand& x) {
  const auto rule = [](auto& g, auto& y) { return g * (y * (1 - y)); };
  return by_result("sigmoid", x, kernels::sigmoid, fused(kernels::sigmoid_backward, rule));
}
Tensor softplus(const Operand& x) {
  return by_input("softplus", x, float32, kernels::softplus, [](auto& g, auto& x) { return g * sigmoid(x); });
}
Tensor silu(const Operand& x) {
  const auto rule = [](auto& g, auto& x) {
    const Tensor s = sigmoid(x);
    return g * (s * (x * (1 - s) + 1));
  };
  return by_input("silu", x, float32, kernels::silu, fused(kernels::silu_backward, rule));
}

Tensor clamp(const Operand& x, double low, double high) {
  if (!(low <= high))
    throw ValueError("clamp: the lower bound must not be above the upper one; got " + std::to_string(low) + " and " +
                     std::to_string(high));
  if (!is_floating(x.dtype())) {
    const auto is_whole = [](double bound) { return std::isinf(bound) || bound == std::trunc(bound); };
    if (!is_whole(low) || !is_whole(high)) return clamp(to(x, float32), low, high);
    if (x.dtype() == boolean) return clamp(to(x, int64), low, high);
  }
  constexpr double kIntegers = 9223372036854775808.0;  // 2^63
  const auto bound = [](double b) {
    const std::int64_t nearest = b >= kIntegers    ? INT64_MAX
                                 : b <= -kIntegers ? INT64_MIN
                                                   : static_cast<std::int64_t>(b);
    return kernels::Number{b, nearest};
  };
  const auto value = [&] { return kernels::clamp(x.array(), bound(low), bound(high)); };
  return record("clamp", value, {x},
                [x, low, high](const Tensor& g) { return Tensors{where(logical_and(ge(x, low), le(x, high)), g, 0)}; });
}

Tensor gelu_gradient(const Tensor& g, const Tensor& x) {
  return g * ((erf(x * kSqrtHalf) + 1) * 0.5 + x * (exp(square(x) * -0.5) * kInverseSqrtTwoPi));
}

Tensor gelu(const Operand& x, GeluApproximation approximate) {
  // The same for Phi(x) = sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
  const auto by_tanh = [](auto& g, auto& x) {
    const Tensor v = clamp(x, -30, 30);  // farther outside nothing changes, but x^3 would overflow
    const Tensor phi = sigmoid(v * (square(v) * (2 * kGeluScale * kGeluCubic) + 2 * kGeluScale));
    return g * (phi + v * (phi * (1 - phi)) * (square(v) * (6 * kGeluScale * kGeluCubic) + 2 * kGeluScale));
  };
  if (approximate == GeluApproximation::tanh)
    return by_input("gelu", x, float32, kernels::gelu_tanh, fused(kernels::gelu_tanh_backward, by_tanh));
  return by_input("gelu", x, float32, kernels::gelu, fused(kernels::gelu_backward, gelu_gradient));
}

Tensor Tensor::exp(SourceLocation where) const { return tapegrad::exp({*this, where}); }
Tensor Tensor::log(SourceLocation where) const { return tapegrad::log({*this, where}); }
Tensor Tensor::sqrt(SourceLocation where) const { return tapegrad::sqrt({*this, where}); }
Tensor Tensor::abs(SourceLocation where) const { return tapegrad::abs({*this, where}); }
Tensor Tensor::tanh(SourceLocation where) const { return tapegrad::tanh({*this, where}); }

}  // namespace tapegrad
