#include <tapegrad/nn/losses.hpp>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/autograd/shaping.hpp>

namespace tapegrad::nn {
namespace {

int class_axis(const Tensor& input) { return input.rank() == 1 ? 0 : 1; }

Shape without_classes(const Tensor& input) {
  Shape rest = input.shape();
  rest.erase(class_axis(input));
  return rest;
}

void check(const Tensor& input, const Tensor& target, const CrossEntropyOptions& options) {
  if (input.rank() == 0) throw ShapeError("cross_entropy: input must have shape (C), (N, C) or (N, C, d...); got []");
  const bool probabilities = is_floating(target.dtype());
  const Shape wanted = probabilities ? input.shape() : without_classes(input);
  if (target.shape() != wanted)
    throw ShapeError(fmt::format("cross_entropy: {} must have shape {} for input {} (classes on dimension {}); got {}",
                                 probabilities ? "a target of probabilities" : "a target of classes", wanted,
                                 input.shape(), class_axis(input), target.shape()));
  if (!probabilities && target.dtype() != int64)
    throw DtypeError(
        fmt::format("cross_entropy: target must be int64 classes or floating probabilities; got {}", target.dtype()));
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw ValueError(fmt::format("cross_entropy: label_smoothing must be in [0, 1]; got {}", options.label_smoothing));
  const Shape classes{input.size(class_axis(input))};
  if (options.weight.defined() && options.weight.shape() != classes)
    throw ShapeError(fmt::format("cross_entropy: weight must have one number for each class, {}; got {}", classes,
                                 options.weight.shape()));
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
  return reduction == Reduction::sum ? losses.sum() : losses.sum() / count;
}

/// Losses of rows, and what each counts in the mean.
struct Rows {
  Tensor losses;
  double count;
};

Rows of_classes(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  Tensor losses = cross_entropy_rows(logits, target, options.ignore_index);
  const Tensor kept = ne(target, options.ignore_index);
  if (!options.weight.defined() && smoothing == 0) return {losses, kept.sum().item()};

  const Tensor one = ones({logits.size(1)}, logits.dtype());
  const Tensor weight = options.weight.defined() ? options.weight.detach().to(logits.dtype()) : one;
  const Tensor row_weight = index_select(weight, 0, where(kept, target, 0)) * kept.to(logits.dtype());
  losses = losses * row_weight;
  if (smoothing > 0) {
    const Tensor spread = -(log_softmax(logits, -1) * weight).sum(-1) / logits.size(1);
    losses = (1 - smoothing) * losses + smoothing * where(kept, spread, 0.0);
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
  return reduced(rows.losses, options.reduction, without_classes(input), rows.count > 0 ? rows.count : 1.0);
}

Tensor mse_loss(const Operand& input, const Operand& target, const MseLossOptions& options) {
  if (input.shape() != target.shape())
    throw ShapeError(
        fmt::format("mse_loss: input and target must have the same shape; got {} and {}; reshape or expand one of them",
                    input.shape(), target.shape()));
  return reduced(square(input - target), options.reduction, input.shape(), static_cast<double>(input.numel()));
}

}  // namespace tapegrad::nn
