#include <cmath>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/cross_entropy.hpp>
#include <tapegrad/core/kernels/rows.hpp>

namespace tapegrad::core::kernels {
namespace {

/// Largest and logarithm are subtracted one by one: their sum would round away what large logits leave of it.
template <class T>
void backward_row(T* gx, const T* x, const T* stats, T g, std::int64_t target, std::int64_t size) {
  using Batch = xsimd::batch<T>;
  const Batch top(stats[0]), log_total(stats[1]), scale(g);
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    store(gx + i, xsimd::exp(load(x + i, count) - top - log_total) * scale, count);
  });
  gx[target] = (std::exp(x[target] - stats[0] - stats[1]) - T(1)) * g;
}

}  // namespace

CrossEntropy cross_entropy(const Array& logits_any, const Array& targets_any, std::int64_t ignored) {
  const Array logits = logits_any.contiguous(), targets = targets_any.contiguous();
  const std::int64_t rows = logits.size(0), classes = logits.size(1);
  const CrossEntropy result{Array({rows}, logits.dtype()), Array({rows, 2}, logits.dtype())};
  dispatch_floating("cross_entropy_rows", logits.dtype(), [&]<class T>(Type<T>) {
    for_each_row(rows, classes, [&](std::int64_t row) {
      const std::int64_t target = targets.data<std::int64_t>()[row];
      T& loss = result.losses.data<T>()[row];
      T* stats = result.stats.data<T>() + 2 * row;
      loss = stats[0] = stats[1] = T(0);
      if (target == ignored) return;
      const T* x = logits.data<T>() + row * classes;
      stats[0] = row_max(x, classes);
      stats[1] = log_sum_exp_below(stats[0], x, classes);
      loss = (stats[0] - x[target]) + stats[1];
    });
  });
  return result;
}

Array cross_entropy_backward(const Array& g_any, const Array& logits_any, const Array& targets_any, const Array& stats,
                             std::int64_t ignored) {
  const Array g = g_any.contiguous(), logits = logits_any.contiguous(), targets = targets_any.contiguous();
  const std::int64_t rows = logits.size(0), classes = logits.size(1);
  const Array result(logits.shape(), logits.dtype());
  dispatch_floating("cross_entropy_rows", logits.dtype(), [&]<class T>(Type<T>) {
    for_each_row(rows, classes, [&](std::int64_t row) {
      const std::int64_t target = targets.data<std::int64_t>()[row];
      T* gx = result.data<T>() + row * classes;
      if (target == ignored)
        std::fill_n(gx, classes, T(0));
      else
        backward_row(gx, logits.data<T>() + row * classes, stats.data<T>() + 2 * row, g.data<T>()[row], target,
                     classes);
    });
  });
  return result;
}

}  // namespace tapegrad::core::kernels
