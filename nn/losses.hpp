// Loss functions.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::nn {

enum class Reduction { none, mean, sum };

struct CrossEntropyOptions {
  /// Weight of each class, [classes]; undefined: all alike. The mean then divides by the sum of the kept targets'
  /// weights.
  Tensor weight = {};
  /// Targets of this value give no loss and no gradient, and don't count in the mean. (Not a position; not for
  /// probabilities.)
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  /// Epsilon in [0, 1]: the target becomes (1 - epsilon) target + epsilon / classes.
  double label_smoothing = 0.0;
};

/// -log softmax(input)[target]. input: logits (C), (N, C) or (N, C, d...), the classes on dimension 1 (or the only
/// one). target: int64 classes of the input's shape without the class dimension, or probabilities of the input's shape.
/// A mean over nothing, because every target is ignored, is 0 with zero gradients. IndexError names a target out of
/// range.
Tensor cross_entropy(const Operand& input, const Operand& target, const CrossEntropyOptions& options = {});

struct MseLossOptions {
  Reduction reduction = Reduction::mean;
};
/// (input - target)^2, by default averaged over all elements. ShapeError if the shapes differ: nothing is broadcast.
Tensor mse_loss(const Operand& input, const Operand& target, const MseLossOptions& options = {});

}  // namespace tapegrad::nn
