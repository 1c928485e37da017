#include <tapegrad/nn/dropout.hpp>

#include <fmt/format.h>

#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {

Dropout::Dropout(double p) : Module("Dropout"), p_(p) {
  require(p >= 0 && p <= 1, "Dropout: p must be in [0, 1]; got {}", p);
  describe(fmt::format("p={}", p));
}

Tensor Dropout::forward(const Operand& x) const {
  const auto here = scope();
  return finished(dropout(x, p_, is_training()));
}

}  // namespace tapegrad::nn
