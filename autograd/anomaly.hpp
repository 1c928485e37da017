// Anomaly mode: the first value that is not finite is an error where it arises, not a NaN in the loss much later.
#pragma once
#include <tapegrad/autograd/tape.hpp>

namespace tapegrad::autograd {

/// While it lives, this thread checks the result of every operation and the gradients of every sweep. The first NaN or
/// infinity throws NonFiniteError: the operation, the path of the module that called it, the line of the user's program
/// (std::source_location) that called the operation or the layer around it, all shapes, the element and its value; in
/// a sweep the number, the line and the module under which the operation was recorded (known if it was recorded in
/// anomaly mode too). An expression over several lines is named by one of them; operations that are called through
/// std::function have the line of the expression around it, or none. Every value is read once more, so it costs time
/// and is off by default; the environment variable TAPEGRAD_ANOMALY=1 turns it on for all threads of a program without
/// a change to it.
///
/// Infinities that are meant, as in masked_fill(scores, mask, -infinity), are reported too: in attention, use its
/// options `mask` or `is_causal`, which need none.
class AnomalyGuard {
 public:
  [[nodiscard]] explicit AnomalyGuard(bool on = true);
  ~AnomalyGuard();
  AnomalyGuard(const AnomalyGuard&) = delete;
  AnomalyGuard& operator=(const AnomalyGuard&) = delete;

 private:
  bool before_;
};

// Inside the library.
/// TAPEGRAD_ANOMALY was set, to anything but "" and "0", when the program started.
extern const bool anomaly_in_environment;
/// NonFiniteError unless these are finite: the gradient of the entry's result, and the one that its closure gave back
/// for input `i`,
void check_gradient_value(Entry& entry, const Tensor& gradient);
void check_input_gradient(Entry& entry, int i, const Tensor& gradient);
/// the sum that a leaf gets.
void check_leaf_gradient(const Tensor& gradient);

}  // namespace tapegrad::autograd
