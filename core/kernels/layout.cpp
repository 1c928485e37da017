#include <tapegrad/core/kernels/map.hpp>

namespace tapegrad::core::kernels {

Layout::Layout(const Array& array, const Shape& shape) {
  const int added = shape.rank() - array.rank();
  Shape sizes;  // from the last dimension to the first, neighbours joined where one stride serves both
  Strides strides;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    const bool repeated = axis < added || array.shape()[axis - added] == 1;
    const std::int64_t stride = repeated ? 0 : array.strides()[axis - added];
    if (!sizes.empty() && stride == strides.back() * sizes.back()) {
      sizes[sizes.rank() - 1] *= shape[axis];
    } else {
      sizes.push_back(shape[axis]);
      strides.push_back(stride);
    }
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    strides.push_back(0);
  }
  const int rank = sizes.rank();
  if (strides.back() == 0) period_ = sizes.sub(0, rank - 1).numel();
  for (int i = rank - 1; i >= 0; --i) {
    sizes_.push_back(sizes[i]);
    strides_.push_back(strides[i]);
  }
}

Array in_rows(const Array& array) {
  constexpr std::int64_t kLarge = 16384;
  if (array.numel() < kLarge || array.is_contiguous()) return array;
  for (int axis = array.rank() - 1; axis >= 0; --axis)
    if (array.shape()[axis] != 1) return array.strides()[axis] > 1 ? array.contiguous() : array;
  return array;
}

}  // namespace tapegrad::core::kernels
