// The tape of an expression as a table, for teaching and for reports: fmt::print("{}", autograd::trace(loss)).
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::autograd {

/// A leaf that wants a gradient, or a recorded operation.
struct TraceRow {
  int number;               // the row's, from 1
  std::uint64_t entry;      // the tape's number of the operation, as errors name it; 0 for a leaf
  std::string operation;    // "leaf", or the name under which it is recorded
  std::vector<int> inputs;  // rows; 0 for an input that wants no gradient
  Shape shape;
  Dtype dtype;
  std::int64_t bytes;  // of the value, which its users keep for their gradients; 0 if it shares an input's memory
  bool freed;          // swept, and what it kept let go
};

struct Trace {
  std::vector<TraceRow> rows;  // leaves in the order in which they are met, then operations in the order of recording
  std::int64_t bytes() const;
  std::string to_string() const;
};

/// All that a sweep from `result` reaches. No rows if it is not on the tape. Nothing is computed or freed.
Trace trace(const Tensor& result);

}  // namespace tapegrad::autograd
