// Arithmetic of two operands: value and gradient side by side.
#include <cmath>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>

namespace tapegrad {

using autograd::check_defined;
using autograd::is_promoted;
using autograd::number;
using autograd::promoted;
using autograd::with_common_dtype;

namespace {

/// Integers divide as float32, or as what the other operand is.
Tensor as_floating(const Tensor& x) { return is_floating(x.dtype()) ? x : to(x, float32); }

/// The larger (smaller) of two: the gradient goes to the one that comes before the other, half of it where both are
/// equal; beside a NaN neither comes first, and both get it.
Tensor choice(const char* name, Array (*kernel)(const Array&, const Array&), const Tensor& a, const Tensor& b,
              Tensor (*before)(const Operand&, const Operand&)) {
  check_defined(name, a), check_defined(name, b);
  if (a.dtype() != b.dtype())
    return with_common_dtype(a, b, [&](auto& p, auto& q) { return choice(name, kernel, p, q, before); });
  const auto value = [&] { return kernel(a.array(), b.array()); };
  return record(name, value, {a, b}, [a, b, before](const Tensor& g) {
    const auto share = [&](const Tensor& own, const Tensor& other) {
      return where(eq(own, other), g * 0.5, where(before(other, own), 0, g));
    };
    return Tensors{needs_gradient(0) ? share(a, b) : Tensor(), needs_gradient(1) ? share(b, a) : Tensor()};
  });
}

}  // namespace

Tensor operator+(const Operand& a, const Operand& b) {
  if (a.dtype() != b.dtype()) return with_common_dtype(a, b, [](auto& p, auto& q) { return p + q; });
  const auto value = [&] { return kernels::add(a.array(), b.array()); };
  return record("add", value, {a, b}, [](const Tensor& g) { return list_of(g, g); });
}
Tensor operator+(const Operand& a, const Scalar& b) {
  if (!is_promoted(a, b)) return promoted(a, b) + b;
  const auto value = [&] { return kernels::add(a.array(), number(b)); };
  return record("add", value, {a}, [](const Tensor& g) { return list_of(g); });
}
Tensor operator+(const Scalar& a, const Operand& b) { return b + a; }

Tensor operator-(const Operand& a, const Operand& b) {
  if (a.dtype() != b.dtype()) return with_common_dtype(a, b, [](auto& p, auto& q) { return p - q; });
  const auto value = [&] { return kernels::subtract(a.array(), b.array()); };
  return record("subtract", value, {a, b},
                [](const Tensor& g) { return list_of(g, needs_gradient(1) ? -g : Tensor()); });
}
Tensor operator-(const Operand& a, const Scalar& b) {
  if (!is_promoted(a, b)) return promoted(a, b) - b;
  const auto value = [&] { return kernels::subtract(a.array(), number(b)); };
  return record("subtract", value, {a}, [](const Tensor& g) { return list_of(g); });
}
Tensor operator-(const Scalar& a, const Operand& b) {
  if (!is_promoted(b, a)) return a - promoted(b, a);
  const auto value = [&] { return kernels::subtract(number(a), b.array()); };
  return record("subtract", value, {b}, [](const Tensor& g) { return list_of(-g); });
}

Tensor operator*(const Operand& a, const Operand& b) {
  if (a.dtype() != b.dtype()) return with_common_dtype(a, b, [](auto& p, auto& q) { return p * q; });
  const auto value = [&] { return kernels::multiply(a.array(), b.array()); };
  return record("multiply", value, {a, b}, [a, b](const Tensor& g) {
    return list_of(needs_gradient(0) ? g * b : Tensor(), needs_gradient(1) ? g * a : Tensor());
  });
}
Tensor operator*(const Operand& a, const Scalar& b) {
  if (!is_promoted(a, b)) return promoted(a, b) * b;
  const auto value = [&] { return kernels::multiply(a.array(), number(b)); };
  return record("multiply", value, {a}, [b](const Tensor& g) { return list_of(g * b); });
}
Tensor operator*(const Scalar& a, const Operand& b) { return b * a; }

Tensor operator/(const Operand& a, const Operand& b) {
  if (a.dtype() != b.dtype()) return with_common_dtype(a, b, [](auto& p, auto& q) { return p / q; });
  if (!is_floating(a.dtype())) return as_floating(a) / as_floating(b);
  const auto value = [&] { return kernels::divide(a.array(), b.array()); };
  return record("divide", value, {a, b}, [a, b](const Tensor& g, const Tensor& y) {
    const Tensor by = off_poles(g, b), to_a = g / by;
    return list_of(to_a, needs_gradient(1) ? -(to_a * (by.body() == b.body() ? y : a / by)) : Tensor());
  });
}
Tensor operator/(const Operand& a, const Scalar& b) {
  if (!is_floating(a.dtype())) return as_floating(a) / b;
  const auto value = [&] { return kernels::divide(a.array(), number(b)); };
  return record("divide", value, {a}, [b](const Tensor& g) { return list_of(g / b); });
}
Tensor operator/(const Scalar& a, const Operand& b) {
  if (!is_floating(b.dtype())) return a / as_floating(b);
  const auto value = [&] { return kernels::divide(number(a), b.array()); };
  return record("divide", value, {b}, [a, b](const Tensor& g) {
    const Tensor by = off_poles(g, b);
    return list_of(-(g * a / by / by));
  });
}

Tensor pow(const Operand& a, const Operand& b) {
  if (a.dtype() != b.dtype()) return with_common_dtype(a, b, [](auto& p, auto& q) { return pow(p, q); });
  const auto value = [&] { return kernels::pow(a.array(), b.array()); };
  return record("pow", value, {a, b}, [a, b](const Tensor& g, const Tensor& y) {
    Tensor to_a, to_b;
    // Where the rule would be 0 times infinity, a harmless number takes the place of exponent or base.
    const Tensor unwanted = logical_or(eq(b, 0), logical_and(eq(g, 0), lt(b, 1)));
    if (needs_gradient(0)) to_a = g * b * pow(a, where(logical_and(eq(a, 0), unwanted), 1, b) - 1);
    if (needs_gradient(1)) {
      const Tensor flat = logical_and(eq(a, 0), logical_or(ge(b, 0), eq(g, 0)));
      to_b = g * where(flat, 0, y) * log(where(flat, 1, a));
    }
    return Tensors{to_a, to_b};
  });
}
Tensor pow(const Operand& a, const Scalar& b) {
  if (!is_promoted(a, b)) return pow(promoted(a, b), b);
  if (!is_floating(a.dtype()) && b.integer() < 0)
    throw ValueError("pow: integers can't be raised to a negative power; got the exponent " +
                     std::to_string(b.integer()) + "; convert the base with .to(tapegrad::float32)");
  const auto value = [&] { return kernels::pow(a.array(), number(b)); };
  return record("pow", value, {a}, [a, b](const Tensor& g) {
    if (b.real() == 0) return Tensors{zeros_like(g)};
    if (b.real() == 1) return list_of(g);
    if (b.real() == 2) return Tensors{g * (a * 2)};
    // Divided by the inverse where there may be a pole: what is 0 there stays 0.
    if (b.real() < 1) return list_of(g * b / off_poles(g, pow(a, 1 - b.real())));
    return Tensors{g * (pow(a, b.real() - 1) * b)};
  });
}
Tensor pow(const Scalar& a, const Operand& b) {
  if (!is_promoted(b, a)) return pow(a, promoted(b, a));
  const auto value = [&] { return kernels::pow(number(a), b.array()); };
  return record("pow", value, {b}, [a, b](const Tensor& g, const Tensor& y) {
    if (a.real() == 0) return Tensors{where(logical_or(ge(b, 0), eq(g, 0)), 0, g * y * -1)};
    return Tensors{g * y * std::log(a.real())};
  });
}

Tensor maximum(const Operand& a, const Operand& b) { return choice("maximum", kernels::maximum, a, b, gt); }
Tensor minimum(const Operand& a, const Operand& b) { return choice("minimum", kernels::minimum, a, b, lt); }

Tensor where(const Operand& condition, const Operand& a, const Operand& b) {
  check_defined("where", condition);
  if (a.dtype() != b.dtype()) return with_common_dtype(a, b, [&](auto& p, auto& q) { return where(condition, p, q); });
  const Tensor mask = to(condition, boolean);
  const auto value = [&] { return kernels::where(mask.array(), a.array(), b.array()); };
  return record("where", value, {mask, a, b}, [mask](const Tensor& g) {
    return Tensors{
        {}, needs_gradient(1) ? where(mask, g, 0) : Tensor(), needs_gradient(2) ? where(mask, 0, g) : Tensor()};
  });
}
Tensor where(const Operand& condition, const Operand& a, const Scalar& b) {
  check_defined("where", condition);
  if (!is_promoted(a, b)) return where(condition, promoted(a, b), b);
  const Tensor mask = to(condition, boolean);
  const auto value = [&] { return kernels::where(mask.array(), a.array(), number(b)); };
  return record("where", value, {mask, a}, [mask](const Tensor& g) { return Tensors{{}, where(mask, g, 0)}; });
}
Tensor where(const Operand& condition, const Scalar& a, const Operand& b) {
  check_defined("where", condition);
  if (!is_promoted(b, a)) return where(condition, a, promoted(b, a));
  const Tensor mask = to(condition, boolean);
  const auto value = [&] { return kernels::where(mask.array(), number(a), b.array()); };
  return record("where", value, {mask, b}, [mask](const Tensor& g) { return Tensors{{}, where(mask, 0, g)}; });
}

Tensor Tensor::pow(const Scalar& exponent, SourceLocation where) const {
  return tapegrad::pow({*this, where}, exponent);
}

}  // namespace tapegrad
