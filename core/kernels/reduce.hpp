// Reductions. `axes` are sorted and counted from 0; reduced axes go away, or stay with size 1. How a sum is split
// depends on the shape alone. Private to the library.
#pragma once
#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

/// The shape after a reduction over `axes`.
Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdim);

/// Booleans are summed as int64. The sum of nothing is 0.
Array sum(const Array& x, const Shape& axes, bool keepdim);
/// Element i along `axis` is the sum of the elements up to i, or from i on if `reversed`; booleans as int64.
Array running_sum(const Array& x, int axis, bool reversed);
/// The largest and the smallest; NaN wins. Of nothing: the lowest and the highest number of the dtype.
Array amax(const Array& x, const Shape& axes, bool keepdim);
Array amin(const Array& x, const Shape& axes, bool keepdim);

struct Extremes {
  Array values;
  Array indices;
};
/// The largest (smallest) along one axis that is not empty, and where it is: the first of equal ones, the first NaN.
Extremes max_along(const Array& x, int axis, bool keepdim);
Extremes min_along(const Array& x, int axis, bool keepdim);

}  // namespace tapegrad::core::kernels
