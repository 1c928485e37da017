// Gradients as values: `grad` returns them instead of accumulating them into leaves.
#pragma once
#include <tapegrad/autograd/tape.hpp>

namespace tapegrad::autograd {

struct GradOptions {
  /// d(loss)/d(output) for each output; may be left out for outputs of one element.
  Tensors grad_outputs = {};
  /// Keep the tape for another sweep; create_graph implies it.
  bool retain_graph = false;
  /// Record the sweep itself, so that the gradients can be differentiated again.
  bool create_graph = false;
  /// Inputs that no output depends on get an undefined gradient instead of an error.
  bool allow_unused = false;
};

/// d(sum of `outputs`)/d(input) for each of `inputs`, leaves or intermediate results. Leaves every .grad() alone.
/// GradError if an output is not on the tape, was swept before, or does not depend on an input.
Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options = {},
             SourceLocation where = SourceLocation::current());

}  // namespace tapegrad::autograd
