// Operations on shape and strides, and copies.
#include <algorithm>

#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/placing.hpp>
#include <tapegrad/autograd/reductions.hpp>

namespace tapegrad {
namespace {

/// `shape` with its -1, if any, worked out from the number of elements.
Shape complete_shape(const Shape& from, Shape shape) {
  const std::string got = "; got " + from.to_string() + " to " + shape.to_string();
  std::int64_t* unknown = nullptr;
  for (std::int64_t& size : shape) {
    if (size < -1 || (size == -1 && unknown))
      throw ShapeError("reshape: sizes must not be negative, but for a single -1" + got);
    if (size == -1) unknown = &size;
  }
  if (unknown) *unknown = 1;
  const std::int64_t known = shape.numel();
  if (unknown && known == 0)
    throw ShapeError("reshape: -1 can't be worked out beside a size of 0" + got + "; write the size itself");
  if (unknown) *unknown = from.numel() / known;
  if (shape.numel() != from.numel())
    throw ShapeError("reshape: the new shape must have as many elements as the old one" + got + ", that is " +
                     std::to_string(from.numel()) + " elements to " +
                     (unknown ? "a multiple of " + std::to_string(known) : std::to_string(known)));
  return shape;
}

/// A view without dimension `axis`, whose size is 1.
Array squeezed(const Array& array, int axis) {
  Shape shape = array.shape();
  Strides strides = array.strides();
  shape.erase(axis);
  strides.erase(axis);
  return Array(array.storage(), array.offset(), shape, strides, array.dtype());
}

}  // namespace

Tensor reshape(const Operand& x, const Shape& shape) {
  const Shape completed = complete_shape(x.shape(), shape);
  const auto value = [&] { return x.array().reshaped(completed); };
  return record("reshape", value, {x}, [before = x.shape()](const Tensor& g) { return Tensors{reshape(g, before)}; });
}

Tensor flatten(const Operand& x, std::int64_t first, std::int64_t last) {
  if (x.rank() == 0) return reshape(x, {1});
  const int begin = normalize_axis("flatten", first, x.rank()), end = normalize_axis("flatten", last, x.rank());
  if (begin > end)
    throw ShapeError("flatten: the first axis must not be behind the last; got " + std::to_string(first) + " and " +
                     std::to_string(last) + " for shape " + x.shape().to_string());
  Shape shape = x.shape().sub(0, begin);
  shape.push_back(x.shape().sub(begin, end + 1).numel());
  for (int i = end + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return reshape(x, shape);
}

Tensor transpose(const Operand& x, std::int64_t a, std::int64_t b) {
  if (x.rank() == 0) return autograd::as_vector(x, [&](const Tensor& v) { return transpose(v, a, b); });
  const int first = normalize_axis("transpose", a, x.rank()), second = normalize_axis("transpose", b, x.rank());
  return record("permute", x.array().transposed(first, second), {x},
                [first, second](const Tensor& g) { return Tensors{transpose(g, first, second)}; });
}

Tensor permute(const Operand& x, const Shape& axes) {
  if (axes.rank() != x.rank())
    throw ShapeError("permute: every axis must be named once; got axes " + axes.to_string() + " for shape " +
                     x.shape().to_string());
  if (!axes.empty()) Axes(axes).normalized("permute", x.rank());
  Shape order = axes, inverse = axes;
  for (int i = 0; i < x.rank(); ++i) {
    order[i] = normalize_axis("permute", axes[i], x.rank());
    inverse[static_cast<int>(order[i])] = i;
  }
  return record("permute", x.array().permuted(order), {x},
                [inverse](const Tensor& g) { return Tensors{permute(g, inverse)}; });
}

Tensor squeeze(const Operand& x, std::int64_t axis) {
  if (x.rank() == 0) return autograd::as_vector(x, [&](const Tensor& v) { return squeeze(v, axis); });
  const int at = normalize_axis("squeeze", axis, x.rank());
  if (x.shape()[at] != 1) return x;
  return record("reshape", squeezed(x.array(), at), {x}, [at](const Tensor& g) { return Tensors{unsqueeze(g, at)}; });
}

Tensor squeeze(const Operand& x) {
  Shape shape;
  for (const std::int64_t size : x.shape())
    if (size != 1) shape.push_back(size);
  return reshape(x, shape);
}

Tensor unsqueeze(const Operand& x, std::int64_t axis) {
  const int at = normalize_axis("unsqueeze", axis, x.rank() + 1);
  const Array& array = x.array();
  Shape shape = x.shape();
  Strides strides = array.strides();
  strides.insert(at, at < x.rank() ? std::max<std::int64_t>(shape[at], 1) * strides[at] : 1);
  shape.insert(at, 1);
  return record("reshape", Array(array.storage(), array.offset(), shape, strides, array.dtype()), {x},
                [at](const Tensor& g) { return Tensors{squeeze(g, at)}; });
}

Tensor expand(const Operand& x, const Shape& shape) {
  Shape wanted = shape;
  const int added = shape.rank() - x.rank();
  for (int i = std::max(added, 0); i < shape.rank(); ++i)
    if (shape[i] == -1) wanted[i] = x.shape()[i - added];
  const bool negative = std::any_of(wanted.begin(), wanted.end(), [](std::int64_t size) { return size < 0; });
  if (negative || !is_broadcastable_to(x.shape(), wanted))
    throw ShapeError("expand: only dimensions of size 1 can grow, and new ones are added in front; got " +
                     x.shape().to_string() + " to " + shape.to_string());
  return record("expand", x.array().expanded(wanted), {x},
                [before = x.shape()](const Tensor& g) { return Tensors{sum_to(g, before)}; });
}

Tensor slice(const Operand& x, std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
  const int at = normalize_axis("slice", axis, x.rank());
  if (step < 1)
    throw ValueError("slice: step must be at least 1; got " + std::to_string(step) + "; use flip to reverse");
  const std::int64_t size = x.shape()[at];
  const auto bound = [size](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size); };
  const std::int64_t begin = bound(start), end = bound(stop);
  return autograd::take(x, {at, begin, end > begin ? (end - begin - 1) / step + 1 : 0, step});
}

Tensor select(const Operand& x, std::int64_t axis, std::int64_t index) {
  const int at = normalize_axis("select", axis, x.rank());
  const std::int64_t size = x.shape()[at];
  if (index < -size || index >= size)
    throw IndexError("select: index must be in [" + std::to_string(-size) + ", " + std::to_string(size) +
                     ") along axis " + std::to_string(at) + " of shape " + x.shape().to_string() + "; got " +
                     std::to_string(index));
  const autograd::Place place{at, index < 0 ? index + size : index, 1, 1};
  return record("select", squeezed(x.array().sliced(at, place.start, 1, 1), at), {x},
                [place, before = x.shape()](const Tensor& g) {
                  return Tensors{autograd::put_gradient(unsqueeze(g, place.axis), place, before)};
                });
}

Tensor clone(const Operand& x) {
  const auto value = [&] { return x.array("clone").copy(); };
  return record("clone", value, {x}, [](const Tensor& g) { return Tensors{g}; });
}

Tensor contiguous(const Operand& x) {
  if (x.array().is_contiguous()) return x;
  return clone(x);
}

Tensor to(const Operand& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  const autograd::Span span("to");
  Array value = x.array().converted(dtype);
  if (!is_floating(dtype)) return Tensor(std::move(value));
  return record("to", std::move(value), {x}, [before = x.dtype()](const Tensor& g) { return Tensors{to(g, before)}; });
}

Tensor Tensor::to(Dtype dtype, SourceLocation where) const { return tapegrad::to({*this, where}, dtype); }
Tensor Tensor::clone(SourceLocation where) const { return tapegrad::clone({*this, where}); }
Tensor Tensor::contiguous(SourceLocation where) const { return tapegrad::contiguous({*this, where}); }
Tensor Tensor::reshape(const Shape& shape, SourceLocation where) const {
  return tapegrad::reshape({*this, where}, shape);
}
Tensor Tensor::flatten(std::int64_t first, std::int64_t last, SourceLocation where) const {
  return tapegrad::flatten({*this, where}, first, last);
}
Tensor Tensor::transpose(std::int64_t a, std::int64_t b, SourceLocation where) const {
  return tapegrad::transpose({*this, where}, a, b);
}
Tensor Tensor::permute(const Shape& axes, SourceLocation where) const {
  return tapegrad::permute({*this, where}, axes);
}
Tensor Tensor::squeeze(std::int64_t axis, SourceLocation where) const {
  return tapegrad::squeeze({*this, where}, axis);
}
Tensor Tensor::unsqueeze(std::int64_t axis, SourceLocation where) const {
  return tapegrad::unsqueeze({*this, where}, axis);
}
Tensor Tensor::expand(const Shape& shape, SourceLocation where) const {
  return tapegrad::expand({*this, where}, shape);
}
Tensor Tensor::slice(std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step,
                     SourceLocation where) const {
  return tapegrad::slice({*this, where}, axis, start, stop, step);
}
Tensor Tensor::select(std::int64_t axis, std::int64_t index, SourceLocation where) const {
  return tapegrad::select({*this, where}, axis, index);
}

}  // namespace tapegrad
