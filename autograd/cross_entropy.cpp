#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/core/kernels/cross_entropy.hpp>

namespace tapegrad {
namespace {

void check_arguments(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index) {
  for (const Tensor* x : {&logits, &targets}) autograd::check_defined("cross_entropy_rows", *x);
  if (logits.rank() != 2 || targets.shape() != Shape{logits.size(0)})
    throw ShapeError("cross_entropy_rows: logits must have shape [rows, classes] and targets [rows]; got " +
                     logits.shape().to_string() + " and " + targets.shape().to_string());
  if (!is_floating(logits.dtype()) || targets.dtype() != int64)
    throw DtypeError("cross_entropy_rows: logits must be float32 or float64 and targets int64; got " +
                     std::string(name_of(logits.dtype())) + " and " + std::string(name_of(targets.dtype())) +
                     "; convert them with .to()");
  const Array values = targets.array().contiguous();
  const std::int64_t classes = logits.size(1);
  for (std::int64_t row = 0; row < values.numel(); ++row) {
    const std::int64_t target = values.data<std::int64_t>()[row];
    if (target != ignore_index && (target < 0 || target >= classes))
      throw IndexError("cross_entropy_rows: every target must be in [0, " + std::to_string(classes) +
                       "), the classes, or ignore_index " + std::to_string(ignore_index) + "; got " +
                       std::to_string(target) + " in row " + std::to_string(row));
  }
}

/// The gradient by differentiable operations: (softmax(logits) - onehot(targets)) g, 0 in ignored rows.
Tensor composed_gradient(const Tensor& g, const Tensor& logits, const Tensor& targets, std::int64_t ignore_index) {
  const Tensor column = unsqueeze(targets, 1);
  const Tensor onehot = to(eq(column, arange(logits.size(1))), logits.dtype());
  return where(ne(column, ignore_index), (softmax(logits, 1) - onehot) * unsqueeze(g, 1), 0.0);
}

}  // namespace

Tensor cross_entropy_rows(const Operand& logits, const Operand& targets, std::int64_t ignore_index) {
  const autograd::Span span("cross_entropy_rows");
  check_arguments(logits, targets, ignore_index);
  auto result = kernels::cross_entropy(logits.array(), targets.array(), ignore_index);
  return record("cross_entropy_rows", std::move(result.losses), {logits, targets},
                [logits, targets, ignore_index, stats = std::move(result.stats)](const Tensor& g) {
                  if (!is_recording({g, logits}))
                    return Tensors{Tensor(kernels::cross_entropy_backward(g.array(), logits.array(), targets.array(),
                                                                          stats, ignore_index)),
                                   {}};
                  return Tensors{composed_gradient(g, logits, targets, ignore_index), {}};
                });
}

}  // namespace tapegrad
