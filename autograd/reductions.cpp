// Reductions: value and gradient side by side.
#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/reduce.hpp>

namespace tapegrad {

using autograd::check_floating;

namespace {

using ChooseAlong = kernels::Extremes (*)(const Array&, int, bool);

/// What was reduced, so that a gradient finds its way back.
struct Reduction {
  Shape from;
  Shape axes;

  Reduction(const char* operation, const Tensor& x, const Axes& which)
      : from(x.shape()), axes(which.normalized(operation, x.rank())) {}

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

Tensor sum(const Tensor& x, const Axes& axes, bool keepdim) {
  const Reduction reduction("sum", x, axes);
  const auto value = [&] { return kernels::sum(x.array(), reduction.axes, keepdim); };
  return record("sum", value, {x}, [reduction](const Tensor& g) { return Tensors{reduction.repeated(g)}; });
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdim) {
  check_floating("mean", x);
  const Reduction reduction("mean", x, axes);
  const auto count = static_cast<double>(reduction.count());
  const auto average = [&] {
    return kernels::divide(kernels::sum(x.array(), reduction.axes, keepdim), kernels::Number{count});
  };
  return record("mean", average, {x},
                [reduction, count](const Tensor& g) { return Tensors{reduction.repeated(g / count)}; });
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (!is_broadcastable_to(shape, x.shape()))
    throw ShapeError("sum_to: the shape must be one that broadcasts to the tensor's; got " + shape.to_string() +
                     " and " + x.shape().to_string());
  const int added = x.rank() - shape.rank();
  Shape axes;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis < added || shape[axis - added] != x.shape()[axis]) axes.push_back(axis);
  const auto value = [&] { return kernels::sum(x.array(), axes, true).reshaped(shape); };
  return record("sum_to", value, {x}, [from = x.shape()](const Tensor& g) { return Tensors{expand(g, from)}; });
}

namespace {

/// The gradient of max and min along an axis goes to the chosen element of each row.
Tensor extreme_along(const char* operation, const Tensor& x, std::int64_t axis, bool keepdim, ChooseAlong choose) {
  const Reduction reduction = reduction_of_some(operation, x, axis);
  const int chosen_axis = static_cast<int>(reduction.axes[0]);
  const autograd::Span span(operation);
  const kernels::Extremes extremes = choose(x.array(), chosen_axis, keepdim);
  const Tensor indices(extremes.indices);
  return record(operation, extremes.values, {x}, [reduction, indices, chosen_axis](const Tensor& g) {
    Shape along = Shape::filled(reduction.from.rank(), 1);
    along[chosen_axis] = reduction.from[chosen_axis];
    const Tensor position = reshape(arange(along[chosen_axis]), along);
    return Tensors{where(eq(reduction.kept(indices), position), reduction.kept(g), 0)};
  });
}

/// Equal largest (smallest) elements share the gradient.
Tensor extreme_over(const char* operation, const Tensor& x, const Axes& axes, bool keepdim,
                    Array (*choose)(const Array&, const Shape&, bool)) {
  const Reduction reduction = reduction_of_some(operation, x, axes);
  const auto value = [&] { return choose(x.array(), reduction.axes, keepdim); };
  return record(operation, value, {x}, [reduction, x](const Tensor& g, const Tensor& y) {
    const Tensor chosen = eq(x, reduction.kept(y));
    const Tensor ties = to(sum(chosen, Axes(reduction.axes), true), g.dtype());
    return Tensors{where(chosen, reduction.kept(g) / ties, 0)};
  });
}

Tensor index_along(const char* operation, const Tensor& x, std::int64_t axis, bool keepdim, ChooseAlong choose) {
  const Reduction reduction = reduction_of_some(operation, x, axis);
  const autograd::Span span(operation);
  return Tensor(choose(x.array(), static_cast<int>(reduction.axes[0]), keepdim).indices);
}

}  // namespace

Tensor max(const Tensor& x, std::int64_t axis, bool keepdim) {
  return extreme_along("max", x, axis, keepdim, kernels::max_along);
}
Tensor min(const Tensor& x, std::int64_t axis, bool keepdim) {
  return extreme_along("min", x, axis, keepdim, kernels::min_along);
}
Tensor max(const Tensor& x) { return amax(x); }
Tensor min(const Tensor& x) { return amin(x); }
Tensor amax(const Tensor& x, const Axes& axes, bool keepdim) {
  return extreme_over("amax", x, axes, keepdim, kernels::amax);
}
Tensor amin(const Tensor& x, const Axes& axes, bool keepdim) {
  return extreme_over("amin", x, axes, keepdim, kernels::amin);
}
Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdim) {
  return index_along("argmax", x, axis, keepdim, kernels::max_along);
}
Tensor argmin(const Tensor& x, std::int64_t axis, bool keepdim) {
  return index_along("argmin", x, axis, keepdim, kernels::min_along);
}

Tensor var(const Tensor& x, const Axes& axes, int correction, bool keepdim) {
  check_floating("var", x);
  const Reduction reduction("var", x, axes);
  const double freedom = std::max(0.0, static_cast<double>(reduction.count() - correction));
  return sum(square(x - mean(x, axes, true)), axes, keepdim) / freedom;
}

Tensor norm(const Tensor& x) {
  check_floating("norm", x);
  const Shape axes = Axes().normalized("norm", x.rank());
  const auto value = [&] { return kernels::sqrt(kernels::sum(kernels::square(x.array()), axes, false)); };
  return record("norm", value, {x},
                [x](const Tensor& g, const Tensor& y) { return Tensors{x * (g / where(eq(y, 0), 1, y))}; });
}

Tensor logsumexp(const Tensor& x, std::int64_t axis, bool keepdim) {
  check_floating("logsumexp", x);
  const Reduction reduction("logsumexp", x, axis);
  const auto value = [&] {
    const Array largest = kernels::amax(x.array(), reduction.axes, true);
    // Rows that are infinite as a whole are shifted by 0: inf - inf would be NaN.
    const Array shift = kernels::where(kernels::isfinite(largest), largest, kernels::Number{});
    const Array total = kernels::sum(kernels::exp(kernels::subtract(x.array(), shift)), reduction.axes, true);
    const Array sum = kernels::add(kernels::log(total), shift);
    return sum.reshaped(kernels::reduced_shape(x.shape(), reduction.axes, keepdim));
  };
  return record("logsumexp", value, {x}, [x, reduction](const Tensor& g, const Tensor& y) {
    return Tensors{reduction.kept(g) * exp(x - reduction.kept(y))};
  });
}

Tensor any(const Tensor& x, const Axes& axes, bool keepdim) {
  return Tensor(kernels::amax(x.array().converted(boolean), axes.normalized("any", x.rank()), keepdim));
}
Tensor all(const Tensor& x, const Axes& axes, bool keepdim) {
  return Tensor(kernels::amin(x.array().converted(boolean), axes.normalized("all", x.rank()), keepdim));
}

Tensor Tensor::sum(const Axes& axes, bool keepdim) const { return tapegrad::sum(*this, axes, keepdim); }
Tensor Tensor::mean(const Axes& axes, bool keepdim) const { return tapegrad::mean(*this, axes, keepdim); }
Tensor Tensor::max(std::int64_t axis, bool keepdim) const { return tapegrad::max(*this, axis, keepdim); }
Tensor Tensor::min(std::int64_t axis, bool keepdim) const { return tapegrad::min(*this, axis, keepdim); }
Tensor Tensor::max() const { return tapegrad::max(*this); }
Tensor Tensor::min() const { return tapegrad::min(*this); }
Tensor Tensor::argmax(std::int64_t axis, bool keepdim) const { return tapegrad::argmax(*this, axis, keepdim); }

}  // namespace tapegrad
