// What joins tensors or masks parts of one out.
#include <algorithm>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/placing.hpp>
#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad {

using autograd::Place;

namespace autograd {

Tensor take(const Tensor& x, const Place& place) {
  return record("slice", x.array().sliced(place.axis, place.start, place.count, place.step), {x},
                [place, before = x.shape()](const Tensor& g) { return Tensors{put_gradient(g, place, before)}; });
}

Tensor put(const Tensor& x, const Place& place, const Shape& shape) {
  const auto placed = [&] {
    Tensor value = zeros(shape, x.dtype());
    core::copy_into(value.array().sliced(place.axis, place.start, place.count, place.step), x.array());
    return value;
  };
  return record("put", placed, {x}, [place](const Tensor& g) { return Tensors{take(g, place)}; });
}

Tensor put_gradient(const Tensor& g, const Place& place, const Shape& shape) {
  if (!is_recording({g}))
    if (const Array sum = take_gradient(0); sum.defined()) {
      const Array part = sum.sliced(place.axis, place.start, place.count, place.step);
      core::copy_into(part, kernels::add(part, g.array()));
      return Tensor(sum);
    }
  return put(g, place, shape);
}

}  // namespace autograd

namespace {

void check_joinable(const Tensors& tensors, int axis) {
  const Shape& first = tensors[0].shape();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    Shape shape = tensors[i].shape();
    if (shape.rank() == first.rank()) shape[axis] = first[axis];
    if (shape != first)
      throw ShapeError("cat: shapes must be equal but along axis " + std::to_string(axis) + "; got " +
                       first.to_string() + " and, at position " + std::to_string(i) + ", " +
                       tensors[i].shape().to_string());
  }
}

/// The lower (upper) triangle of each matrix, up to (from) the diagonal; zero elsewhere.
Array triangle(const char* operation, const Operand& tensor, bool lower, std::int64_t diagonal) {
  if (tensor.rank(operation) < 2)
    throw ShapeError(std::string(operation) + ": expected a matrix or a batch of matrices; got shape " +
                     tensor.shape().to_string());
  const Array x = tensor.array().contiguous();
  Array result(x.shape(), x.dtype());
  const std::int64_t rows = x.size(x.rank() - 2), columns = x.shape().back();
  if (x.numel() == 0) return result;
  const std::int64_t offset = std::clamp(diagonal, -rows, columns);  // farther out nothing changes
  core::dispatch(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* in = x.data<T>();
    T* out = result.data<T>();
    const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / columns);
    core::parallel_ranges(x.numel() / columns, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t edge = std::clamp<std::int64_t>(row % rows + offset + lower, 0, columns);
        const std::int64_t first = lower ? 0 : edge, last = lower ? edge : columns;
        T* line = out + row * columns;
        std::fill_n(line, first, T{0});
        std::copy(in + row * columns + first, in + row * columns + last, line + first);
        std::fill_n(line + last, columns - last, T{0});
      }
    });
  });
  return result;
}

}  // namespace

Tensor cat(const Tensors& tensors, std::int64_t axis, SourceLocation where) {
  const autograd::UserLine line(where);
  if (tensors.empty()) throw ValueError("cat: expected at least one tensor; got none");
  for (const Tensor& x : tensors) autograd::check_defined("cat", x);
  const int at = normalize_axis("cat", axis, tensors[0].rank());
  check_joinable(tensors, at);
  Dtype dtype = tensors[0].dtype();
  for (const Tensor& x : tensors) dtype = promote(dtype, x.dtype());

  Tensors parts;
  std::vector<Place> places;
  std::int64_t size = 0;
  for (const Tensor& x : tensors) {
    parts.push_back(to(x, dtype));
    places.push_back({at, size, x.shape()[at], 1});
    if (__builtin_add_overflow(size, x.shape()[at], &size))
      throw ShapeError("cat: the sizes must add up within 64 bits");
  }
  Shape shape = tensors[0].shape();
  shape[at] = size;
  const autograd::Span span("cat");
  Array value(shape, dtype);
  for (std::size_t i = 0; i < parts.size(); ++i)
    core::copy_into(value.sliced(at, places[i].start, places[i].count, 1), parts[i].array());
  return record("cat", std::move(value), parts, [places = std::move(places)](const Tensor& g) {
    Tensors gradients(places.size());
    for (std::size_t i = 0; i < places.size(); ++i)
      if (autograd::needs_gradient(static_cast<int>(i))) gradients[i] = autograd::take(g, places[i]);
    return gradients;
  });
}

Tensor stack(const Tensors& tensors, std::int64_t axis, SourceLocation where) {
  const autograd::UserLine line(where);
  if (tensors.empty()) throw ValueError("stack: expected at least one tensor; got none");
  for (const Tensor& x : tensors) autograd::check_defined("stack", x);
  const int at = normalize_axis("stack", axis, tensors[0].rank() + 1);
  Tensors parts;
  for (const Tensor& x : tensors) {
    if (x.shape() != tensors[0].shape())
      throw ShapeError("stack: shapes must be equal; got " + tensors[0].shape().to_string() + " and, at position " +
                       std::to_string(parts.size()) + ", " + x.shape().to_string());
    parts.push_back(unsqueeze(x, at));
  }
  return cat(parts, at);
}

Tensor flip(const Operand& x, const Axes& axes) {
  const Shape reversed = axes.normalized("flip", x.rank());
  Array view = x.array();
  for (std::int64_t axis : reversed) {
    const int at = static_cast<int>(axis);
    view = view.sliced(at, view.size(at) - 1, view.size(at), -1);
  }
  const auto value = [&] { return view.copy(); };
  return record("flip", value, {x}, [axes](const Tensor& g) { return Tensors{flip(g, axes)}; });
}

Tensor tril(const Operand& x, std::int64_t diagonal) {
  const auto value = [&] { return triangle("tril", x, true, diagonal); };
  return record("tril", value, {x}, [diagonal](const Tensor& g) { return Tensors{tril(g, diagonal)}; });
}

Tensor triu(const Operand& x, std::int64_t diagonal) {
  const auto value = [&] { return triangle("triu", x, false, diagonal); };
  return record("triu", value, {x}, [diagonal](const Tensor& g) { return Tensors{triu(g, diagonal)}; });
}

Tensor masked_fill(const Operand& x, const Operand& mask, const Scalar& value) {
  if (!is_broadcastable_to(mask.shape(), x.shape()))
    throw ShapeError("masked_fill: the mask must broadcast to the tensor; got mask " + mask.shape().to_string() +
                     " and tensor " + x.shape().to_string());
  return where(mask, full({}, value, x.dtype()), x);
}

}  // namespace tapegrad
