// Putting elements in order. Equal elements keep their order; NaN counts as larger than every number. The gradient goes
// to the values; indices have none.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// values[..., i] = x[..., indices[..., i]] along the axis; indices are int64.
struct Sorted {
  Tensor values;
  Tensor indices;
};

/// In rising (or falling) order along `axis`.
Sorted sort(const Operand& x, std::int64_t axis = -1, bool descending = false);
/// The indices of the same.
Tensor argsort(const Operand& x, std::int64_t axis = -1, bool descending = false);
/// The k largest (smallest) along `axis`, the best first if `sorted`, else in the order that they have in x. ValueError
/// unless 0 <= k <= size of the axis.
Sorted topk(const Operand& x, std::int64_t k, std::int64_t axis = -1, bool largest = true, bool sorted = true);

}  // namespace tapegrad
