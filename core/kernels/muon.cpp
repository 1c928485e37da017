#include <tapegrad/core/kernels/optimizer_steps.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/kernels.hpp>
#include <tapegrad/core/kernels/map.hpp>
#include <tapegrad/core/kernels/transpose.hpp>

namespace tapegrad::core::kernels {
namespace {

/// to = a x + b y, element by element; `to` may be x or y.
template <class T>
void combine(const Array& to, double a, const Array& x, double b, const Array& y) {
  map_into<T, T, T>(
      to, [a = static_cast<T>(a), b = static_cast<T>(b)](const auto& u, const auto& v) { return u * a + v * b; }, x, y);
}

/// out = a b, for a product that is known to be symmetric: what is right of the diagonal is computed, and mirrored.
template <class T>
void symmetric_product(const Array& out, const Array& a, const Array& b) {
  constexpr std::int64_t kShortest = 32, kMost = 8;
  const std::int64_t side = out.size(0);
  const std::int64_t rows = std::max(kShortest, (side / kMost + kShortest - 1) / kShortest * kShortest);
  parallel_ranges(side, rows, [&, data = out.data<T>()](std::int64_t begin, std::int64_t end) {
    matmul_into(out.sliced(0, begin, end - begin, 1).sliced(1, begin, side - begin, 1),
                a.sliced(0, begin, end - begin, 1), b.sliced(1, begin, side - begin, 1), false);
    transpose_strip(data + end * side + begin, side, data + begin * side + end, side, side - end, end - begin);
  });
}

/// out = 3.4445 I - 4.7750 gram + 2.0315 gram^2.
template <class T>
void polynomial(const Array& out, const Array& gram) {
  symmetric_product<T>(out, gram, gram);
  combine<T>(out, -4.7750, gram, 2.0315, out);
  const std::int64_t side = out.size(0);
  for (std::int64_t i = 0; i < side; ++i) out.data<T>()[i * (side + 1)] += static_cast<T>(3.4445);
}

/// Newton and Schulz's iteration brings the singular values of x to about 1: x = polynomial(x x^T) x, again and again
/// (of x^T x behind x, if x is tall). All the polynomials of x x^T commute. So for long matrices only x x^T is
/// iterated, g = polynomial(g)^2 g, and x is multiplied once, by the product of the polynomials; rounding grows
/// twelvefold each time, which is harmless for a few iterations.
template <class T>
Array newton_schulz(Array x, std::int64_t iterations, double eps) {
  constexpr std::int64_t kFew = 5;
  scale_in_place(x, 1 / std::max(std::sqrt(norm_power(x, 2)), eps));
  const bool wide = x.size(0) <= x.size(1);
  const std::int64_t side = std::min(x.size(0), x.size(1)), length = std::max(x.size(0), x.size(1));
  const bool is_long = 4 * length >= 5 * side && iterations <= kFew;
  const auto square = [&] { return Array({side, side}, x.dtype()); };
  const Array gram = square(), factor = square();
  Array product = is_long ? square() : Array(), scratch = is_long ? square() : Array();
  Array next(x.shape(), x.dtype());
  const auto multiply = [&](const Array& by) {
    matmul_into(next, wide ? by : x, wide ? x : by, false);
    std::swap(x, next);
  };
  for (std::int64_t i = 0; i < iterations; ++i) {
    if (i == 0 || !is_long) {
      const Array turned = x.transposed(0, 1);
      symmetric_product<T>(gram, wide ? x : turned, wide ? turned : x);
    } else {
      symmetric_product<T>(scratch, factor, gram);
      symmetric_product<T>(gram, scratch, factor);
    }
    polynomial<T>(factor, gram);
    if (!is_long) {
      multiply(factor);
    } else if (i == 0) {
      copy_into(product, factor);
    } else {
      symmetric_product<T>(scratch, factor, product);
      std::swap(product, scratch);
    }
  }
  if (is_long) multiply(product);
  return x;
}

}  // namespace

void muon_step(const Array& parameter, const Array& gradient, const Array& buffer, std::int64_t iterations,
               double scale, const Step& step) {
  if (parameter.numel() == 0) return;
  dispatch_floating("muon_step", parameter.dtype(), [&]<class T>(Type<T>) {
    const double kept = step.momentum, fresh = 1 - kept;
    combine<T>(buffer, kept, buffer, fresh, gradient);
    Array direction(parameter.shape(), parameter.dtype());
    combine<T>(direction, step.nesterov ? kept : 1.0, buffer, step.nesterov ? fresh : 0.0, gradient);
    direction = newton_schulz<T>(std::move(direction), iterations, step.eps);
    combine<T>(parameter, 1 - step.lr * step.weight_decay, parameter, -step.lr * scale, direction);
  });
}

}  // namespace tapegrad::core::kernels
