// Taking a regular part of a tensor and putting it back among zeros: each is the other's gradient. Private to the
// library.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::autograd {

/// Elements start, start + step, ... (count of them) along an axis.
struct Place {
  int axis;
  std::int64_t start;
  std::int64_t count;
  std::int64_t step;
};

/// The view of x at `place`; slice() with its arguments worked out.
Tensor take(const Tensor& x, const Place& place);
/// Zeros of `shape`, with x at `place`.
Tensor put(const Tensor& x, const Place& place, const Shape& shape);
/// Inside a closure of one input: put(g, place, shape), added to the gradient that the input has so far where that may
/// be written to. The gradient of many pieces of one tensor then takes one pass, not one for each piece.
Tensor put_gradient(const Tensor& g, const Place& place, const Shape& shape);

/// Elements i along axis `row` and i + offset along axis `column`.
struct Diagonal {
  std::int64_t offset;
  int row;
  int column;
};

/// Zeros of `shape`, with x, whose last dimension runs along it, on the diagonal.
Tensor put(const Tensor& x, const Diagonal& diagonal, const Shape& shape);

}  // namespace tapegrad::autograd
