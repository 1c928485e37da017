#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/core/kernels/dropout.hpp>

namespace tapegrad {
namespace {

/// Dropout by the mask that `state` gives: linear in x, so its gradient is the same function of g.
Tensor masked(const Tensor& x, double p, const RandomState& state) {
  const auto value = [&] { return kernels::dropout(x.array(), p, state); };
  return record("dropout", value, {x}, [p, state](const Tensor& g) { return Tensors{masked(g, p, state)}; });
}

}  // namespace

Tensor dropout(const Operand& x, double p, bool training) {
  if (!(p >= 0.0 && p <= 1.0))
    throw ValueError("dropout: p must be in [0, 1]; got " + std::to_string(p) +
                     "; it is the probability that an element becomes zero");
  autograd::check_floating("dropout", x);
  if (!training || p == 0.0) return x;
  return masked(x, p, core::take_random(kernels::dropout_counters(x.numel())));
}

}  // namespace tapegrad
