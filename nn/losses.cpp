#include <tapegrad/nn/losses.hpp>

#include <cmath>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {
namespace {

int class_axis(const Tensor& input) { return input.rank() == 1 ? 0 : 1; }

Shape without_classes(const Tensor& input) {
  Shape rest = input.shape();
  rest.erase(class_axis(input));
  return rest;
}

void check_classes(const char* loss, const Tensor& input, const Tensor& target, const Tensor& weight,
                   bool probabilities) {
  autograd::check_defined(loss, input), autograd::check_defined(loss, target);
  require<ShapeError>(input.rank() != 0, "{}: input must have shape (C), (N, C) or (N, C, d...); got []", loss);
  const Shape wanted = probabilities ? input.shape() : without_classes(input);
  require<ShapeError>(target.shape() == wanted,
                      "{}: {} must have shape {} for input {} (classes on dimension {}); got {}", loss,
                      probabilities ? "a target of probabilities" : "a target of classes", wanted, input.shape(),
                      class_axis(input), target.shape());
  const Shape classes{input.size(class_axis(input))};
  if (weight.defined())
    require<ShapeError>(weight.shape() == classes, "{}: weight must have one number for each class, {}; got {}", loss,
                        classes, weight.shape());
}

void check(const Tensor& input, const Operand& target, const CrossEntropyOptions& options) {
  const bool probabilities = is_floating(target.dtype("cross_entropy"));
  check_classes("cross_entropy", input, target, options.weight, probabilities);
  require<DtypeError>(probabilities || target.dtype() == int64,
                      "cross_entropy: target must be int64 classes or floating probabilities; got {}", target.dtype());
  require(options.label_smoothing >= 0 && options.label_smoothing <= 1,
          "cross_entropy: label_smoothing must be in [0, 1]; got {}", options.label_smoothing);
  require<DtypeError>(is_floating(input.dtype()),
                      "cross_entropy: input must be float32 or float64; got {}; convert it with .to()", input.dtype());
}

void check_range(const char* loss, const Tensor& target, std::int64_t classes, std::int64_t ignore_index) {
  const std::vector<std::int64_t> values = target.to_vector<std::int64_t>();
  for (std::size_t row = 0; row < values.size(); ++row)
    require<IndexError>(values[row] == ignore_index || (values[row] >= 0 && values[row] < classes),
                        "{}: every target must be in [0, {}), the classes, or ignore_index {}; got {} in row {}", loss,
                        classes, ignore_index, values[row], row);
}

/// 1, or its weight, for each target's class, and 0 for the ignored ones.
Tensor weights_of(const Tensor& target, const Tensor& weight, std::int64_t ignore_index, Dtype dtype) {
  const Tensor kept = ne(target, ignore_index);
  if (!weight.defined()) return kept.to(dtype);
  return index_select(weight.detach().to(dtype), 0, where(kept, target, 0)) * kept.to(dtype);
}

/// (C), (N, C) or (N, C, d...) -> [rows, C].
Tensor as_rows(const Tensor& x) {
  if (x.rank() <= 2) return x.reshape({x.rank() == 2 ? x.size(0) : 1, x.size(-1)});
  Shape axes{0};
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  axes.push_back(1);
  return x.permute(axes).reshape({without_classes(x).numel(), x.size(1)});
}

Tensor reduced(const Tensor& losses, Reduction reduction, const Shape& shape, double count) {
  if (reduction == Reduction::none) return losses.reshape(shape);
  return reduction == Reduction::sum ? losses.sum() : losses.sum() / (count != 0 ? count : 1.0);
}
Tensor reduced(const Tensor& losses, Reduction reduction) {
  return reduced(losses, reduction, losses.shape(), static_cast<double>(losses.numel()));
}

/// The target in a floating dtype, after checks of both.
Tensor beside(const char* loss, const Tensor& input, const Tensor& target) {
  autograd::check_defined(loss, input), autograd::check_defined(loss, target);
  require<ShapeError>(input.shape() == target.shape(),
                      "{}: input and target must have the same shape; got {} and {}; reshape or expand one of them",
                      loss, input.shape(), target.shape());
  require<DtypeError>(is_floating(input.dtype()), "{}: input must be float32 or float64; got {}; convert it with .to()",
                      loss, input.dtype());
  return is_floating(target.dtype()) ? target : target.to(input.dtype());
}

/// difference^2 / 2 up to `bound`, from there on as steep as there.
Tensor bent(const Tensor& difference, double bound) {
  if (std::isinf(difference.dtype() == float32 ? static_cast<float>(bound) : bound)) return 0.5 * square(difference);
  const Tensor inner = clamp(difference, -bound, bound);
  return 0.5 * square(inner) + bound * abs(difference - inner);
}

Tensor factor(const char* name, const Tensor& weight, const Tensor& input) {
  require<ShapeError>(
      broadcast_shapes("binary_cross_entropy_with_logits", input.shape(), weight.shape()) == input.shape(),
      "binary_cross_entropy_with_logits: {} must broadcast to the input {}; got {}", name, input.shape(),
      weight.shape());
  return weight.to(input.dtype());
}

/// Losses of rows, and what each counts in the mean.
struct Rows {
  Tensor losses;
  double count;
};

Rows of_classes(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  check_range("cross_entropy", target, logits.size(1), options.ignore_index);
  Tensor losses = cross_entropy_rows(logits, target, options.ignore_index);
  if (!options.weight.defined() && smoothing == 0) return {losses, ne(target, options.ignore_index).sum().item()};

  const Tensor row_weight = weights_of(target, options.weight, options.ignore_index, logits.dtype());
  losses = losses * row_weight;
  if (smoothing > 0) {
    Tensor spread = -log_softmax(logits, -1);
    if (options.weight.defined()) spread = spread * options.weight.detach().to(logits.dtype());
    losses = (1 - smoothing) * losses +
             smoothing * where(ne(target, options.ignore_index), spread.sum(-1) / logits.size(1), 0.0);
  }
  return {losses, row_weight.sum().item()};
}

Rows of_probabilities(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  Tensor wanted = target.to(logits.dtype());
  if (options.label_smoothing > 0)
    wanted = (1 - options.label_smoothing) * wanted + options.label_smoothing / static_cast<double>(logits.size(1));
  if (options.weight.defined()) wanted = wanted * options.weight.detach().to(logits.dtype());
  return {-(wanted * log_softmax(logits, -1)).sum(-1), static_cast<double>(logits.size(0))};
}

}  // namespace

Tensor cross_entropy(const Operand& input, const Operand& target, const CrossEntropyOptions& options) {
  check(input, target, options);
  const Tensor logits = as_rows(input);
  const Rows rows = is_floating(target.dtype()) ? of_probabilities(logits, as_rows(target), options)
                                                : of_classes(logits, target.reshape({target.numel()}), options);
  return reduced(rows.losses, options.reduction, without_classes(input), rows.count);
}

Tensor nll_loss(const Operand& input, const Operand& target, const NllLossOptions& options) {
  check_classes("nll_loss", input, target, options.weight, false);
  require<DtypeError>(is_floating(input.dtype()) && target.dtype() == int64,
                      "nll_loss: input must be float32 or float64 and target int64; got {} and {}", input.dtype(),
                      target.dtype());
  const Tensor rows = as_rows(input), classes = target.reshape({target.numel()});
  check_range("nll_loss", classes, rows.size(1), options.ignore_index);
  const Tensor kept = ne(classes, options.ignore_index);
  const Tensor weight = weights_of(classes, options.weight, options.ignore_index, input.dtype());
  const Tensor picked = gather(rows, 1, where(kept, classes, 0).unsqueeze(1)).squeeze(1);
  return reduced(-weight * where(kept, picked, 0.0), options.reduction, without_classes(input), weight.sum().item());
}

Tensor mse_loss(const Operand& input, const Operand& target, const LossOptions& options) {
  return reduced(square(input - beside("mse_loss", input, target)), options.reduction);
}

Tensor l1_loss(const Operand& input, const Operand& target, const LossOptions& options) {
  return reduced(abs(input - beside("l1_loss", input, target)), options.reduction);
}

Tensor smooth_l1_loss(const Operand& input, const Operand& target, const SmoothL1LossOptions& options) {
  require(options.beta >= 0, "smooth_l1_loss: beta must not be negative; got {}", options.beta);
  const Tensor difference = input - beside("smooth_l1_loss", input, target);
  return reduced(options.beta == 0 ? abs(difference) : bent(difference, options.beta) / options.beta,
                 options.reduction);
}

Tensor huber_loss(const Operand& input, const Operand& target, const HuberLossOptions& options) {
  require(options.delta > 0, "huber_loss: delta must be positive; got {}", options.delta);
  return reduced(bent(input - beside("huber_loss", input, target), options.delta), options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Operand& input, const Operand& target,
                                        const BinaryCrossEntropyOptions& options) {
  const Tensor wanted = beside("binary_cross_entropy_with_logits", input, target);
  Tensor positive = wanted * softplus(-input);
  if (options.pos_weight.defined()) positive = positive * factor("pos_weight", options.pos_weight, input);
  Tensor losses = positive + (1 - wanted) * softplus(input);
  if (options.weight.defined()) losses = losses * factor("weight", options.weight, input);
  return reduced(losses, options.reduction);
}

Tensor kl_div(const Operand& input, const Operand& target, const KlDivOptions& options) {
  const Tensor wanted = beside("kl_div", input, target);
  const Tensor probability = options.log_target ? exp(wanted) : wanted;
  const Tensor counts = ne(probability, 0);  // 0 log 0 is 0, also for the gradients
  const Tensor logarithm = options.log_target ? where(counts, wanted, 0.0) : log(where(counts, wanted, 1.0));
  const Tensor losses = probability * (logarithm - where(counts, input, 0.0));
  if (options.reduction == KlReduction::batchmean)
    return losses.sum() / (losses.rank() > 0 && losses.size(0) > 0 ? losses.size(0) : 1);
  return reduced(losses, options.reduction == KlReduction::none  ? Reduction::none
                         : options.reduction == KlReduction::sum ? Reduction::sum
                                                                 : Reduction::mean);
}

}  // namespace tapegrad::nn
