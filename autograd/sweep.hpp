// The backward sweep's state on this thread. Private to the library.
#pragma once
#include <tapegrad/autograd/tape.hpp>

namespace tapegrad::autograd {

/// The entry whose closure is running on this thread, if any.
const Entry* running_entry();

/// ShapeError or DtypeError in the operation's name unless `gradient`, or what `kind` says that it is, is like
/// `tensor`.
void check_gradient(const char* operation, const Tensor& tensor, const Tensor& gradient, const char* kind = "gradient");

/// The number of the newest entry.
std::uint64_t last_number();

/// A tensor at the place of `edge`, a leaf or a result. A result's value is not there any more: nobody may ask for it.
Tensor tensor_at(const Edge& edge);

/// Inside a closure: the sweep goes on with `gradient` at `output`, which was recorded just now, after entry `since`.
/// Its entries are swept before all that are older, as if they had always been on the tape.
void sweep_on(const Tensor& output, const Tensor& gradient, std::uint64_t since);

/// Tests put wrong gradients in here: if set, it is called with what each closure has returned.
inline void (*gradient_filter)(const Entry& entry, Tensors& gradients) = nullptr;

}  // namespace tapegrad::autograd
