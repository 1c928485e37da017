// Reductions: value and gradient side by side.
#include <algorithm>
#include <cmath>
#include <limits>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/reduce.hpp>

namespace tapegrad {

using autograd::check_floating;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using ChooseAlong = kernels::Extremes (*)(const Array&, int, bool);

/// What was reduced, so that a gradient finds its way back.
struct Reduction {
  Shape from;
  Shape axes;

  Reduction(const char* operation, const Operand& x, const Axes& which)
      : from(x.shape(operation)), axes(which.normalized(operation, from.rank())) {}

  /// A reduced tensor with its axes put back, of size 1.
  Tensor kept(const Tensor& reduced) const { return reshape(reduced, kernels::reduced_shape(from, axes, true)); }
  /// A reduced tensor repeated over what was reduced.
  Tensor repeated(const Tensor& reduced) const { return expand(kept(reduced), from); }
  /// How many elements each element of the result comes from.
  std::int64_t count() const {
    std::int64_t count = 1;
    for (std::int64_t axis : axes) count *= from[static_cast<int>(axis)];
    return count;
  }
};

/// For operations that choose an element: there must be one.
Reduction reduction_of_some(const char* operation, const Tensor& x, const Axes& axes) {
  const Reduction reduction(operation, x, axes);
  if (reduction.count() == 0)
    throw ShapeError(std::string(operation) +
                     ": there must be an element to choose along the reduced axes; got shape " +
                     reduction.from.to_string());
  return reduction;
}

}  // namespace

Tensor sum(const Operand& x, const Axes& axes, bool keepdim) {
  const Reduction reduction("sum", x, axes);
  const auto value = [&] { return kernels::sum(x.array(), reduction.axes, keepdim); };
  return record("sum", value, {x}, [reduction](const Tensor& g) { return Tensors{reduction.repeated(g)}; });
}

Tensor mean(const Operand& x, const Axes& axes, bool keepdim) {
  check_floating("mean", x);
  const Reduction reduction("mean", x, axes);
  return sum(x, axes, keepdim) / static_cast<double>(reduction.count());
}

Tensor prod(const Operand& x, const Axes& axes, bool keepdim) {
  if (x.dtype() == boolean) return prod(to(x, int64), axes, keepdim);
  const Reduction reduction("prod", x, axes);
  Shape order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (std::find(reduction.axes.begin(), reduction.axes.end(), axis) == reduction.axes.end()) order.push_back(axis);
  for (std::int64_t axis : reduction.axes) order.push_back(axis);
  const Shape reduced = kernels::reduced_shape(x.shape(), reduction.axes, keepdim);
  Tensor rows = reshape(permute(x, order), {reduced.numel(), reduction.count()});
  if (reduction.count() == 0) rows = cat({rows, ones({reduced.numel(), 1}, x.dtype())}, 1);
  while (rows.size(1) > 1) {
    const std::int64_t size = rows.size(1), half = size / 2;
    const Tensor pairs = slice(rows, 1, 0, half) * slice(rows, 1, half, 2 * half);
    rows = size % 2 ? cat({pairs, slice(rows, 1, size - 1, size)}, 1) : pairs;
  }
  return reshape(rows, reduced);
}

namespace {

Tensor running_sum(const Tensor& x, int axis, bool reversed) {
  const auto value = [&] { return kernels::running_sum(x.array(), axis, reversed); };
  return record("cumsum", value, {x}, [=](const Tensor& g) { return Tensors{running_sum(g, axis, !reversed)}; });
}

}  // namespace

Tensor cumsum(const Operand& x, std::int64_t axis) {
  if (x.rank() == 0) return autograd::as_vector(x, [&](const Tensor& v) { return cumsum(v, axis); });
  return running_sum(x, normalize_axis("cumsum", axis, x.rank()), false);
}

Tensor sum_to(const Operand& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (!is_broadcastable_to(shape, x.shape()))
    throw ShapeError("sum_to: the shape must be one that broadcasts to the tensor's; got " + shape.to_string() +
                     " and " + x.shape().to_string());
  const int added = x.rank() - shape.rank();
  Shape axes;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis < added || shape[axis - added] != x.shape()[axis]) axes.push_back(axis);
  const auto value = [&] { return kernels::sum(x.array(), axes, true).reshaped(shape); };
  return record("sum", value, {x}, [from = x.shape()](const Tensor& g) { return Tensors{expand(g, from)}; });
}

namespace {

/// Equal largest (smallest) elements share the gradient.
Tensor extreme_over(const char* operation, const Tensor& x, const Axes& axes, bool keepdim,
                    Array (*choose)(const Array&, const Shape&, bool)) {
  const Reduction reduction = reduction_of_some(operation, x, axes);
  const auto value = [&] { return choose(x.array(), reduction.axes, keepdim); };
  return record(operation, value, {x}, [reduction, x](const Tensor& g, const Tensor& y) {
    const Tensor chosen = logical_or(eq(x, reduction.kept(y)), isnan(x));  // where there is a NaN, it is the largest
    const Tensor ties = to(sum(chosen, Axes(reduction.axes), true), g.dtype());
    return Tensors{where(chosen, reduction.kept(g) / ties, 0)};
  });
}

Tensor index_along(const char* operation, const Operand& x, std::int64_t axis, bool keepdim, ChooseAlong choose) {
  if (x.rank(operation) == 0)
    return autograd::as_vector(x.detach(),
                               [&](const Tensor& v) { return index_along(operation, v, axis, false, choose); });
  const Reduction reduction = reduction_of_some(operation, x, axis);
  const autograd::Span span(operation);
  return Tensor(choose(x.array(), static_cast<int>(reduction.axes[0]), keepdim).indices);
}

/// The element there, of max and min along an axis.
Tensor extreme_along(const char* operation, const Tensor& x, std::int64_t axis, bool keepdim, ChooseAlong choose) {
  const autograd::Span span(operation);
  const Tensor chosen = gather(x, axis, index_along(operation, x, axis, true, choose));
  return keepdim || x.rank() == 0 ? chosen : squeeze(chosen, axis);
}

}  // namespace

Tensor max(const Operand& x, std::int64_t axis, bool keepdim) {
  return extreme_along("max", x, axis, keepdim, kernels::max_along);
}
Tensor min(const Operand& x, std::int64_t axis, bool keepdim) {
  return extreme_along("min", x, axis, keepdim, kernels::min_along);
}
Tensor max(const Operand& x) { return amax(x); }
Tensor min(const Operand& x) { return amin(x); }
Tensor amax(const Operand& x, const Axes& axes, bool keepdim) {
  return extreme_over("amax", x, axes, keepdim, kernels::amax);
}
Tensor amin(const Operand& x, const Axes& axes, bool keepdim) {
  return extreme_over("amin", x, axes, keepdim, kernels::amin);
}
Tensor argmax(const Operand& x, std::int64_t axis, bool keepdim) {
  return index_along("argmax", x, axis, keepdim, kernels::max_along);
}
Tensor argmin(const Operand& x, std::int64_t axis, bool keepdim) {
  return index_along("argmin", x, axis, keepdim, kernels::min_along);
}

Tensor argmax(const Operand& x) { return argmax(flatten(Tensor(x.array())), 0); }
Tensor argmin(const Operand& x) { return argmin(flatten(Tensor(x.array())), 0); }

Tensor var(const Operand& x, const Axes& axes, int correction, bool keepdim) {
  check_floating("var", x);
  const Reduction reduction("var", x, axes);
  const double freedom = std::max(0.0, static_cast<double>(reduction.count() - correction));
  return sum(square(x - mean(x, axes, true)), axes, keepdim) / freedom;
}

Tensor std(const Operand& x, const Axes& axes, int correction, bool keepdim) {
  check_floating("std", x);
  const Tensor variance = var(x, axes, correction, keepdim), is_zero = eq(variance, 0);
  return where(is_zero, 0, sqrt(where(is_zero, 1, variance)));
}

namespace {

Tensor euclidean_norm(const Tensor& x, const Reduction& reduction, bool keepdim) {
  const auto value = [&] { return kernels::sqrt(kernels::sum(kernels::square(x.array()), reduction.axes, keepdim)); };
  return record("norm", value, {x}, [x, reduction](const Tensor& g, const Tensor& y) {
    return Tensors{x * reduction.kept(g / where(eq(y, 0), kInfinity, y))};
  });
}

/// x^p for x >= 0, with gradient 0 at 0.
Tensor power(const Tensor& x, double p) {
  const Tensor is_zero = eq(x, 0);
  return where(is_zero, 0, pow(where(is_zero, 1, x), p));
}

}  // namespace

Tensor norm(const Operand& x) { return norm(x, 2); }
Tensor norm(const Operand& x, double p, const Axes& axes, bool keepdim) {
  check_floating("norm", x);
  if (!(p > 0)) throw ValueError("norm: p must be above 0; got " + std::to_string(p));
  const Reduction reduction("norm", x, axes);
  if (p == 2) return euclidean_norm(x, reduction, keepdim);
  if (p == 1) return sum(abs(x), axes, keepdim);
  if (!std::isinf(p)) return power(sum(power(abs(x), p), axes, keepdim), 1 / p);
  reduction_of_some("norm", x, axes);
  return amax(abs(x), axes, keepdim);
}

Tensor logsumexp(const Operand& x, const Axes& axes, bool keepdim) {
  if (!is_floating(x.dtype())) return logsumexp(to(x, float32), axes, keepdim);
  const Reduction reduction("logsumexp", x, axes);
  const auto value = [&] {
    const Array largest = kernels::amax(x.array(), reduction.axes, true);
    // Rows that are infinite as a whole are shifted by 0: inf - inf would be NaN.
    const Array shift = kernels::where(kernels::isfinite(largest), largest, kernels::Number{});
    const Array total = kernels::sum(kernels::exp(kernels::subtract(x.array(), shift)), reduction.axes, true);
    const Array sum = kernels::add(kernels::log(total), shift);
    return sum.reshaped(kernels::reduced_shape(x.shape(), reduction.axes, keepdim));
  };
  return record("logsumexp", value, {x}, [x, reduction](const Tensor& g, const Tensor& y) {
    // Shifted by 0, exp(-inf) is 0 where a row has nothing but -inf; -inf + inf would be NaN.
    return Tensors{reduction.kept(g) * exp(x - reduction.kept(where(eq(y, -kInfinity), 0, y)))};
  });
}

Tensor any(const Operand& x, const Axes& axes, bool keepdim) {
  return Tensor(kernels::amax(x.array().converted(boolean), axes.normalized("any", x.rank()), keepdim));
}
Tensor all(const Operand& x, const Axes& axes, bool keepdim) {
  return Tensor(kernels::amin(x.array().converted(boolean), axes.normalized("all", x.rank()), keepdim));
}

Tensor Tensor::sum(const Axes& axes, bool keepdim, SourceLocation where) const {
  return tapegrad::sum({*this, where}, axes, keepdim);
}
Tensor Tensor::mean(const Axes& axes, bool keepdim, SourceLocation where) const {
  return tapegrad::mean({*this, where}, axes, keepdim);
}
Tensor Tensor::max(std::int64_t axis, bool keepdim, SourceLocation where) const {
  return tapegrad::max({*this, where}, axis, keepdim);
}
Tensor Tensor::min(std::int64_t axis, bool keepdim, SourceLocation where) const {
  return tapegrad::min({*this, where}, axis, keepdim);
}
Tensor Tensor::max(SourceLocation where) const { return tapegrad::max({*this, where}); }
Tensor Tensor::min(SourceLocation where) const { return tapegrad::min({*this, where}); }
Tensor Tensor::argmax(std::int64_t axis, bool keepdim, SourceLocation where) const {
  return tapegrad::argmax({*this, where}, axis, keepdim);
}

}  // namespace tapegrad
