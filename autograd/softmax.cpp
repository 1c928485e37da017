#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/kernels/softmax.hpp>

namespace tapegrad {

Tensor softmax(const Operand& x, std::int64_t axis) {
  if (x.rank() == 0) return autograd::as_vector(x, [&](const Tensor& v) { return softmax(v, axis); });
  const int along = normalize_axis("softmax", axis, x.rank());
  const auto value = [&] { return kernels::softmax(x.array(), along); };
  return record("softmax", value, {x}, [along](const Tensor& g, const Tensor& y) {
    if (is_recording({g, y})) return Tensors{y * (g - sum(g * y, along, true))};
    return Tensors{Tensor(kernels::softmax_backward(g.array(), y.array(), along))};
  });
}

Tensor log_softmax(const Operand& x, std::int64_t axis) {
  if (x.rank() == 0) return autograd::as_vector(x, [&](const Tensor& v) { return log_softmax(v, axis); });
  const int along = normalize_axis("log_softmax", axis, x.rank());
  const auto value = [&] { return kernels::log_softmax(x.array(), along); };
  return record("log_softmax", value, {x}, [along](const Tensor& g, const Tensor& y) {
    if (is_recording({g, y})) return Tensors{g - exp(y) * sum(g, along, true)};
    return Tensors{Tensor(kernels::log_softmax_backward(g.array(), y.array(), along))};
  });
}

}  // namespace tapegrad
