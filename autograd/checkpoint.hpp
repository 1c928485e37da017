// Checkpoints: memory for time. What a function saved for its gradients is dropped and computed again when needed.
#pragma once
#include <functional>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::autograd {

/// function(inputs), as one entry on the tape: what the operations inside kept for their gradients is freed at once. A
/// sweep that comes here calls the function again, with the same random numbers and recording on, and goes on through
/// what that records, so gradients have the bits that they have without a checkpoint: those of the inputs, of
/// parameters and of any other tensors that the function uses, also in autograd::grad, with hooks, and of second order.
///
/// The function must do the same in both calls: GradError if it then reads other tensors, or tensors whose values were
/// changed in between. Constants count if they are among the inputs; a mask or an index that the function captures is
/// not watched. It must not have effects that may not happen twice. Without recording it is only called.
Tensor checkpoint(std::function<Tensor(const Tensors&)> function, const Tensors& inputs,
                  SourceLocation where = SourceLocation::current());

}  // namespace tapegrad::autograd
