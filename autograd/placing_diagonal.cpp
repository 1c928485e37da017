// Taking a diagonal, a view, and putting it back among zeros: each is the other's gradient.
#include <algorithm>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/placing.hpp>

namespace tapegrad {

using autograd::Diagonal;

namespace {

Array view_of(const Array& x, const Diagonal& at) {
  const std::int64_t rows = x.size(at.row), columns = x.size(at.column);
  const std::int64_t offset = std::clamp(at.offset, -rows, columns);
  const std::int64_t count = offset < 0 ? std::min(rows + offset, columns) : std::min(rows, columns - offset);
  const std::int64_t down = x.strides()[at.row], across = x.strides()[at.column];
  const std::int64_t start = count == 0 ? 0 : offset < 0 ? -offset * down : offset * across;
  Shape shape = x.shape();
  Strides strides = x.strides();
  for (const int axis : {std::max(at.row, at.column), std::min(at.row, at.column)}) {
    shape.erase(axis);
    strides.erase(axis);
  }
  shape.push_back(count);
  strides.push_back(down + across);
  return Array(x.storage(), x.offset() + start, shape, strides, x.dtype());
}

}  // namespace

namespace autograd {

Tensor put(const Tensor& x, const Diagonal& at, const Shape& shape) {
  const auto placed = [&] {
    Tensor value = zeros(shape, x.dtype());
    core::copy_into(view_of(value.array(), at), x.array());
    return value;
  };
  return record("put", placed, {x},
                [at](const Tensor& g) { return Tensors{diagonal(g, at.offset, at.row, at.column)}; });
}

}  // namespace autograd

Tensor diagonal(const Operand& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2) {
  const Diagonal at{offset, normalize_axis("diagonal", axis1, x.rank()), normalize_axis("diagonal", axis2, x.rank())};
  if (at.row == at.column)
    throw ShapeError("diagonal: the two axes must differ; got " + std::to_string(axis1) + " and " +
                     std::to_string(axis2) + " for shape " + x.shape().to_string());
  return record("diagonal", view_of(x.array(), at), {x},
                [at, before = x.shape()](const Tensor& g) { return Tensors{autograd::put(g, at, before)}; });
}

}  // namespace tapegrad
