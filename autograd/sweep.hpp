// The backward sweep's state on this thread. Private to the library.
#pragma once
#include <tapegrad/autograd/tape.hpp>

namespace tapegrad::autograd {

/// The entry whose closure is running on this thread, if any.
const Entry* running_entry();

/// ShapeError or DtypeError in the operation's name unless `gradient` is like `tensor`.
void check_gradient(const char* operation, const Tensor& tensor, const Tensor& gradient);

/// Tests put wrong gradients in here: if set, it is called with what each closure has returned.
inline void (*gradient_filter)(const Entry& entry, Tensors& gradients) = nullptr;

}  // namespace tapegrad::autograd
