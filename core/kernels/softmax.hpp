// Softmax and its logarithm along one axis, and softmax of attention scores among the keys that a query may attend to.
// Private to the library.
#pragma once
#include <tapegrad/core/array.hpp>
#include <tapegrad/core/kernels/band.hpp>

namespace tapegrad::core::kernels {

Array softmax(const Array& x, int axis);
Array log_softmax(const Array& x, int axis);

/// y (g - sum(g y)), where y is the softmax.
Array softmax_backward(const Array& g, const Array& y, int axis);
/// g - exp(y) sum(g), where y is the log-softmax.
Array log_softmax_backward(const Array& g, const Array& y, int axis);

/// softmax(scale * scores) over the last dimension, among the allowed elements; the others are exactly 0, whatever
/// their score. A row that allows nothing (or only -inf) is all 0. `mask`: undefined, or boolean and of the scores'
/// shape (strides may be 0). What is outside `band` is not allowed either.
Array masked_softmax(const Array& scores, const Array& mask, const Band& band, double scale);
/// scale * weights * (gradient - sum(gradient * weights)) over the last dimension, exactly 0 where the weight is 0.
Array masked_softmax_backward(const Array& gradient, const Array& weights, double scale);
/// No NaN and no infinity.
bool all_finite(const Array& array);

}  // namespace tapegrad::core::kernels
