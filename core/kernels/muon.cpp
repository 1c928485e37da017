#include <tapegrad/core/kernels/muon.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/kernels.hpp>
#include <tapegrad/core/kernels/map.hpp>
#include <tapegrad/core/kernels/optimizer_steps.hpp>

namespace tapegrad::core::kernels {
namespace {

/// to = a x + b y, element by element; `to` may be x or y.
template <class T>
void combine(const Array& to, double a, const Array& x, double b, const Array& y) {
  map_into<T, T, T>(
      to, [a = static_cast<T>(a), b = static_cast<T>(b)](const auto& u, const auto& v) { return u * a + v * b; }, x, y);
}

/// Brings the singular values of x to about 1: x = (a + b x x^T + c (x x^T)^2) x, again and again. The products are
/// of the smaller of the two sides.
template <class T>
Array newton_schulz(Array x, std::int64_t iterations, double eps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  scale_in_place(x, 1 / std::max(std::sqrt(norm_power(x, 2)), eps));
  const bool wide = x.size(0) <= x.size(1);
  const std::int64_t side = std::min(x.size(0), x.size(1));
  const Array gram({side, side}, x.dtype()), factor({side, side}, x.dtype());
  Array next(x.shape(), x.dtype());
  for (std::int64_t i = 0; i < iterations; ++i) {
    const Array turned = x.transposed(0, 1);
    matmul_into(gram, wide ? x : turned, wide ? turned : x, false);
    matmul_into(factor, gram, gram, false);
    combine<T>(factor, kB, gram, kC, factor);
    for (std::int64_t j = 0; j < side; ++j) factor.data<T>()[j * (side + 1)] += static_cast<T>(kA);
    matmul_into(next, wide ? factor : x, wide ? x : factor, false);
    std::swap(x, next);
  }
  return x;
}

}  // namespace

void muon_step(const Array& parameter, const Array& gradient, const Array& buffer, const MuonStep& step) {
  if (parameter.numel() == 0) return;
  dispatch_floating("muon_step", parameter.dtype(), [&]<class T>(Type<T>) {
    const double kept = step.momentum, fresh = 1 - kept;
    combine<T>(buffer, kept, buffer, fresh, gradient);
    Array direction(parameter.shape(), parameter.dtype());
    combine<T>(direction, step.nesterov ? kept : 1.0, buffer, step.nesterov ? fresh : 0.0, gradient);
    direction = newton_schulz<T>(std::move(direction), step.iterations, step.eps);
    combine<T>(parameter, 1 - step.lr * step.weight_decay, parameter, -step.lr * step.scale, direction);
  });
}

}  // namespace tapegrad::core::kernels
