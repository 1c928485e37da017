// Operations on shape that are made of others, and so have their gradients.
#include <algorithm>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/placing.hpp>

namespace tapegrad {
namespace {

/// A position along `axis`, counted from the start.
std::int64_t from_the_start(std::int64_t position, std::int64_t size) {
  return position < 0 ? position + size : position;
}

/// x side by side `times` times along one axis: one copy of the elements, in three dimensions, whatever x's rank is.
Tensor repeated(const Tensor& x, int axis, std::int64_t times) {
  Shape shape = x.shape();
  if (__builtin_mul_overflow(shape[axis], times, &shape[axis]))
    throw ShapeError("repeat: the sizes must stay within 64 bits; got " + std::to_string(times) + " times " +
                     x.shape().to_string());
  const std::int64_t outer = shape.sub(0, axis).numel(), inner = x.shape().sub(axis, x.rank()).numel();
  return reshape(expand(reshape(x, {outer, 1, inner}), {outer, times, inner}), shape);
}

/// x with `before` and `after` elements of `value` more (or fewer, if negative) along one axis.
Tensor padded(const Tensor& x, int axis, std::int64_t before, std::int64_t after, const Scalar& value) {
  const std::int64_t size = x.shape()[axis];
  // One more than there is will do for what is too much, and can't overflow.
  const auto cropped = [&](std::int64_t pad) { return pad < 0 ? -std::max(pad, -size - 1) : 0; };
  const std::int64_t first = cropped(before), kept = size - first - cropped(after);
  if (kept < 0)
    throw ShapeError("pad: negative pads must leave none or more of the elements; got pads " + std::to_string(before) +
                     " and " + std::to_string(after) + " along axis " + std::to_string(axis) + " of shape " +
                     x.shape().to_string());
  Tensors parts;
  const auto add = [&](std::int64_t count) {
    if (count <= 0) return;
    Shape shape = x.shape();
    shape[axis] = count;
    parts.push_back(expand(full({}, value, x.dtype()), shape));
  };
  add(before);
  parts.push_back(kept == size ? x : autograd::take(x, {axis, first, kept, 1}));
  add(after);
  return parts.size() == 1 ? parts[0] : cat(parts, axis);
}

}  // namespace

Tensor broadcast_to(const Operand& x, const Shape& shape) { return expand(x, shape); }
Tensor view_as(const Operand& x, const Operand& like) { return reshape(x, like.shape()); }

Tensor movedim(const Operand& x, std::int64_t from, std::int64_t to) { return movedim(x, Shape{from}, Shape{to}); }

Tensor movedim(const Operand& x, const Shape& from, const Shape& to) {
  if (from.rank() != to.rank())
    throw ShapeError("movedim: every axis needs its new position; got axes " + from.to_string() + " and positions " +
                     to.to_string());
  if (from.empty()) return x;
  if (x.rank() == 0) return autograd::as_vector(x, [&](const Tensor& v) { return movedim(v, from, to); });
  Axes(from).normalized("movedim", x.rank());
  Axes(to).normalized("movedim", x.rank());
  Shape order = Shape::filled(x.rank(), -1), moved = Shape::filled(x.rank(), 0);
  for (int i = 0; i < from.rank(); ++i) {
    const int axis = normalize_axis("movedim", from[i], x.rank());
    order[normalize_axis("movedim", to[i], x.rank())] = axis;
    moved[axis] = 1;
  }
  int next = 0;
  for (std::int64_t& axis : order) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = next++;
  }
  return permute(x, order);
}

Tensor narrow(const Operand& x, std::int64_t axis, std::int64_t start, std::int64_t count) {
  const int at = normalize_axis("narrow", axis, x.rank());
  const std::int64_t size = x.shape()[at], first = from_the_start(start, size);
  if (first < 0 || first > size || count < 0 || count > size - first)
    throw IndexError("narrow: the elements must be inside the axis; got " + std::to_string(count) + " from " +
                     std::to_string(start) + " on along axis " + std::to_string(at) + " of shape " +
                     x.shape().to_string());
  return autograd::take(x, {at, first, count, 1});
}

Tensors split(const Operand& x, std::int64_t size, std::int64_t axis) {
  const int at = normalize_axis("split", axis, x.rank());
  const std::int64_t whole = x.shape()[at];
  if (size < 0 || (size == 0 && whole > 0))
    throw ValueError("split: the size of a piece must be at least 1; got " + std::to_string(size) + " for shape " +
                     x.shape().to_string());
  Tensors pieces;
  std::int64_t start = 0;
  do {
    const std::int64_t count = std::min(size, whole - start);
    pieces.push_back(autograd::take(x, {at, start, count, 1}));
    start += count;
  } while (start < whole);
  return pieces;
}

Tensors split(const Operand& x, const std::vector<std::int64_t>& sizes, std::int64_t axis) {
  const int at = normalize_axis("split", axis, x.rank());
  std::int64_t start = 0;
  bool fits = true;
  for (const std::int64_t size : sizes) {
    fits = fits && size >= 0 && size <= x.shape()[at] - start;
    if (fits) start += size;
  }
  if (!fits || start != x.shape()[at])
    throw ShapeError("split: the sizes must not be negative and must add up to the size of axis " + std::to_string(at) +
                     "; got shape " + x.shape().to_string() + " and " + std::to_string(sizes.size()) +
                     " sizes that don't");
  Tensors pieces;
  start = 0;
  for (const std::int64_t size : sizes) {
    pieces.push_back(autograd::take(x, {at, start, size, 1}));
    start += size;
  }
  return pieces;
}

Tensors split(const Operand& x, std::initializer_list<std::int64_t> sizes, std::int64_t axis) {
  return split(x, std::vector<std::int64_t>(sizes), axis);
}

Tensors chunk(const Operand& x, std::int64_t count, std::int64_t axis) {
  if (count < 1) throw ValueError("chunk: expected at least one chunk; got " + std::to_string(count));
  const std::int64_t size = x.shape()[normalize_axis("chunk", axis, x.rank())];
  if (size == 0) return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(count), 0), axis);
  return split(x, size / count + (size % count > 0), axis);
}

Tensors unbind(const Operand& x, std::int64_t axis) {
  const int at = normalize_axis("unbind", axis, x.rank());
  Tensors parts;
  for (std::int64_t i = 0; i < x.shape()[at]; ++i) parts.push_back(select(x, at, i));
  return parts;
}

Tensor roll(const Operand& x, std::int64_t shift) { return view_as(roll(reshape(x, {-1}), shift, 0), x); }

Tensor roll(const Operand& x, std::int64_t shift, std::int64_t axis) {
  const int at = normalize_axis("roll", axis, x.rank());
  const std::int64_t size = x.shape()[at];
  const std::int64_t front = size == 0 ? 0 : from_the_start(shift % size, size);  // how many come round to the front
  if (front == 0) return x;
  return cat({autograd::take(x, {at, size - front, front, 1}), autograd::take(x, {at, 0, size - front, 1})}, at);
}

Tensor roll(const Operand& x, const Shape& shifts, const Shape& axes) {
  if (shifts.rank() != axes.rank())
    throw ShapeError("roll: every axis needs its shift; got shifts " + shifts.to_string() + " and axes " +
                     axes.to_string());
  Tensor result = x;
  for (int i = 0; i < axes.rank(); ++i) result = roll(result, shifts[i], axes[i]);
  return result;
}

Tensor repeat(const Operand& x, const Shape& repeats) {
  const int added = repeats.rank() - x.rank();
  const bool negative = std::any_of(repeats.begin(), repeats.end(), [](std::int64_t times) { return times < 0; });
  if (added < 0 || negative)
    throw ShapeError("repeat: every dimension needs a number of repeats, and none may be negative; got " +
                     repeats.to_string() + " for shape " + x.shape().to_string());
  Shape shape = Shape::filled(added, 1);
  for (const std::int64_t size : x.shape()) shape.push_back(size);
  Tensor result = reshape(x, shape);
  for (int i = repeats.rank() - 1; i >= 0; --i)
    if (repeats[i] != 1) result = repeated(result, i, repeats[i]);
  return result;
}

Tensor pad(const Operand& x, const std::vector<std::int64_t>& pads, const Scalar& value) {
  const std::size_t axes = pads.size() / 2;
  if (pads.size() % 2 != 0 || axes > static_cast<std::size_t>(x.rank()))
    throw ShapeError("pad: expected a pair of pads for each of the last axes; got " + std::to_string(pads.size()) +
                     " numbers for shape " + x.shape().to_string());
  Tensor result = x;
  for (std::size_t i = 0; i < axes; ++i)
    if (pads[2 * i] != 0 || pads[2 * i + 1] != 0)
      result = padded(result, x.rank() - 1 - static_cast<int>(i), pads[2 * i], pads[2 * i + 1], value);
  return result;
}

}  // namespace tapegrad
