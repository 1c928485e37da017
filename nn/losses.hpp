// Loss functions.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::nn {

enum class Reduction { none, mean, sum };

struct CrossEntropyOptions {
  /// Weight of each class, [classes], a constant; undefined: all alike. The mean then divides by the sum of the kept
  /// targets' weights.
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

struct NllLossOptions {
  /// As CrossEntropyOptions.
  Tensor weight = {};
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
/// -input[target], for logarithms of probabilities: what cross_entropy does behind its log_softmax, with the same
/// shapes, means and errors for int64 targets.
Tensor nll_loss(const Operand& input, const Operand& target, const NllLossOptions& options = {});

// The losses below compare element by element: ShapeError if the shapes differ, for nothing is broadcast; DtypeError
// unless the input is floating. Integer and boolean targets are converted. A mean over no elements is 0.

struct LossOptions {
  Reduction reduction = Reduction::mean;
};
/// (input - target)^2.
Tensor mse_loss(const Operand& input, const Operand& target, const LossOptions& options = {});
/// |input - target|, with gradient 0 where they are equal.
Tensor l1_loss(const Operand& input, const Operand& target, const LossOptions& options = {});

struct SmoothL1LossOptions {
  double beta = 1.0;
  Reduction reduction = Reduction::mean;
};
/// (input - target)^2 / (2 beta) where |input - target| < beta, and |input - target| - beta / 2 elsewhere (Girshick,
/// 2015). ValueError for a negative beta; 0 is l1_loss, also where it is 0 (there PyTorch has the gradient -1).
Tensor smooth_l1_loss(const Operand& input, const Operand& target, const SmoothL1LossOptions& options = {});

struct HuberLossOptions {
  double delta = 1.0;
  Reduction reduction = Reduction::mean;
};
/// delta times smooth_l1_loss with beta = delta (Huber, 1964). ValueError unless delta is positive.
Tensor huber_loss(const Operand& input, const Operand& target, const HuberLossOptions& options = {});

struct BinaryCrossEntropyOptions {
  /// Factor of each loss; broadcasts to the input.
  Tensor weight = {};
  /// Factor of what targets of 1 cost, usually negatives / positives of each class; broadcasts to the input.
  Tensor pos_weight = {};
  Reduction reduction = Reduction::mean;
};
/// -(pos_weight target log sigmoid(input) + (1 - target) log(1 - sigmoid(input))), without overflow and without loss of
/// small values for logits of any size.
Tensor binary_cross_entropy_with_logits(const Operand& input, const Operand& target,
                                        const BinaryCrossEntropyOptions& options = {});

/// `batchmean`, the sum divided by the size of the first dimension, is the divergence of distributions; `mean` divides
/// by the number of elements, as in PyTorch.
enum class KlReduction { none, mean, batchmean, sum };
struct KlDivOptions {
  KlReduction reduction = KlReduction::mean;
  /// The target holds logarithms too.
  bool log_target = false;
};
/// target (log target - input), for logarithms of probabilities `input`; where the target is 0, so is the loss.
Tensor kl_div(const Operand& input, const Operand& target, const KlDivOptions& options = {});

}  // namespace tapegrad::nn
