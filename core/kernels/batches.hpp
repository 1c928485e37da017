// Where the matrices of a batch, or the rows of an array, stand in memory. Private to the library.
#pragma once
#include <tapegrad/core/shape.hpp>

namespace tapegrad::core::kernels {

/// The offset of number `index` among all of `batch` (the leading dimensions of an array with these strides).
inline std::int64_t batch_offset(std::int64_t index, const Shape& batch, const Strides& strides) {
  std::int64_t offset = 0;
  for (int axis = batch.rank() - 1; axis >= 0; --axis) {
    offset += index % batch[axis] * strides[axis];
    index /= batch[axis];
  }
  return offset;
}

}  // namespace tapegrad::core::kernels
