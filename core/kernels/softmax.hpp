// Softmax and its logarithm along one axis. Private to the library.
#pragma once
#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

Array softmax(const Array& x, int axis);
Array log_softmax(const Array& x, int axis);

/// y (g - sum(g y)), where y is the softmax.
Array softmax_backward(const Array& g, const Array& y, int axis);
/// g - exp(y) sum(g), where y is the log-softmax.
Array log_softmax_backward(const Array& g, const Array& y, int axis);

}  // namespace tapegrad::core::kernels
