// Elementwise functions made of others, which bring their gradients.
#include <cmath>
#include <limits>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>

namespace tapegrad {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor tan(const Operand& x) { return sin(x) / cos(x); }

Tensor elu(const Operand& x, double alpha) {
  return where(gt(x, 0), x, expm1(clamp_max(x, 0)) * alpha);  // clamped: exp of large numbers would overflow
}

Tensor softplus(const Operand& x, double beta, double threshold) {
  if (beta == 0 || !std::isfinite(beta))
    throw ValueError("softplus: beta must be finite and not 0; got " + std::to_string(beta));
  if (beta == 1 && threshold >= 20 && x.dtype() != float64) return softplus(x);  // x itself from 17 on
  const Tensor scaled = x * beta;
  return where(gt(scaled, threshold), x, softplus(scaled) / beta);
}

Tensor clamp_min(const Operand& x, double low) { return clamp(x, low, kInfinity); }
Tensor clamp_max(const Operand& x, double high) { return clamp(x, -kInfinity, high); }

// From the nearer end, so that each end is met exactly.
Tensor lerp(const Operand& a, const Operand& b, const Operand& weight) {
  const Tensor way = b - a;
  return where(lt(weight, 0.5), a + way * weight, b - way * (1 - weight));
}
Tensor lerp(const Operand& a, const Operand& b, double weight) {
  const Tensor way = b - a;
  return weight < 0.5 ? a + way * weight : b - way * (1 - weight);
}

}  // namespace tapegrad
