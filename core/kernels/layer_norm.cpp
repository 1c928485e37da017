#include <cmath>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/kernels.hpp>
#include <tapegrad/core/kernels/layer_norm.hpp>
#include <tapegrad/core/kernels/rows.hpp>

namespace tapegrad::core::kernels {
namespace {

/// Mean and 1 / sqrt(variance + eps). The variance is taken around the mean, so that it is never negative; without
/// centering, 0 stands for the mean.
template <class T>
void row_stats(T* stats, const T* x, std::int64_t size, double eps, Centering centering) {
  using Batch = xsimd::batch<T>;
  Batch total(T(0));
  if (centering == Centering::mean)
    for_each_batch<T>(size, [&](std::int64_t i, auto count) { total += load(x + i, count); });
  const T mean = xsimd::hadd(total) / static_cast<T>(size);
  const Batch center(mean);
  Batch squares(T(0));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    const Batch d = load(x + i, count, mean) - center;
    squares = xsimd::fma(d, d, squares);
  });
  stats[0] = mean;
  stats[1] =
      static_cast<T>(1.0 / std::sqrt(static_cast<double>(xsimd::hadd(squares)) / static_cast<double>(size) + eps));
}

template <class T>
void normalize_row(T* y, const T* x, const T* stats, const T* weight, const T* bias, std::int64_t size) {
  using Batch = xsimd::batch<T>;
  const Batch mean(stats[0]), inverse(stats[1]);
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    Batch value = (load(x + i, count) - mean) * inverse;
    if (weight) value *= load(weight + i, count);
    if (bias) value += load(bias + i, count);
    store(y + i, value, count);
  });
}

/// inverse (gw - mean(gw) - n mean(gw n)), where n is the normalised row and gw = g weight; added to gx, if `add`.
/// The first mean is that of the centering.
template <class T>
void backward_row(T* gx, bool add, const T* g, const T* x, const T* stats, const T* weight, std::int64_t size,
                  Centering centering) {
  using Batch = xsimd::batch<T>;
  const Batch mean(stats[0]), inverse(stats[1]);
  const auto weighted = [&](std::int64_t i, auto count) {
    return weight ? load(g + i, count) * load(weight + i, count) : load(g + i, count);
  };
  Batch total(T(0)), dot(T(0));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    const Batch gw = weighted(i, count);
    total += gw;
    dot = xsimd::fma(gw, (load(x + i, count, stats[0]) - mean) * inverse, dot);
  });
  const T n = static_cast<T>(size);
  const Batch a(centering == Centering::mean ? xsimd::hadd(total) / n : T(0)), b(xsimd::hadd(dot) / n);
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    const Batch normal = (load(x + i, count) - mean) * inverse;
    const Batch gradient = (weighted(i, count) - a - normal * b) * inverse;
    store(gx + i, add ? load(gx + i, count) + gradient : gradient, count);
  });
}

/// sums[0 ... size) += g n, sums[size ... 2 size) += g.
template <class T>
void accumulate_row(T* sums, const T* g, const T* x, const T* stats, std::int64_t size) {
  using Batch = xsimd::batch<T>;
  const Batch mean(stats[0]), inverse(stats[1]);
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    const Batch gradient = load(g + i, count);
    const Batch normal = (load(x + i, count) - mean) * inverse;
    store(sums + i, xsimd::fma(gradient, normal, load(sums + i, count)), count);
    store(sums + size + i, load(sums + size + i, count) + gradient, count);
  });
}

std::int64_t rows_of(const Array& x, std::int64_t width) { return width > 0 ? x.numel() / width : 0; }

/// Rows are summed in at most kBlocks blocks, each into a line of its own; the lines are added in their order.
std::int64_t rows_per_block(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kBlocks = 64;
  return std::max(rows_per_task(width), (rows + kBlocks - 1) / kBlocks);
}

}  // namespace

LayerNorm layer_norm(const Array& x_any, const Array& weight_any, const Array& bias_any, std::int64_t width, double eps,
                     Centering centering) {
  const Array x = x_any.contiguous();
  const Array weight = weight_any.contiguous(), bias = bias_any.contiguous();
  const std::int64_t rows = rows_of(x, width);
  const LayerNorm result{Array(x.shape(), x.dtype()), Array({rows, 2}, x.dtype())};
  dispatch_floating("layer_norm", x.dtype(), [&]<class T>(Type<T>) {
    const T *px = x.data<T>(), *pw = data_or_null<T>(weight), *pb = data_or_null<T>(bias);
    T *py = result.y.data<T>(), *stats = result.stats.data<T>();
    for_each_row(rows, width, [&](std::int64_t row) {
      row_stats(stats + 2 * row, px + row * width, width, eps, centering);
      normalize_row(py + row * width, px + row * width, stats + 2 * row, pw, pb, width);
    });
  });
  return result;
}

LayerNormGradients layer_norm_backward(const Array& g_any, const Array& x_any, const Array& weight_any,
                                       const Array& stats, std::int64_t width, bool with_weight, Centering centering,
                                       const Array& sum) {
  const Array g = g_any.contiguous(), x = x_any.contiguous(), weight = weight_any.contiguous();
  const std::int64_t rows = rows_of(x, width), block = rows_per_block(rows, width);
  const std::int64_t blocks = std::max<std::int64_t>(1, (rows + block - 1) / block);
  LayerNormGradients result{sum.defined() ? sum : Array(x.shape(), x.dtype()), {}, {}};
  Array sums;
  if (with_weight) {
    sums = Array({blocks, 2 * width}, x.dtype());
    fill(sums, 0.0);
  }
  dispatch_floating("layer_norm", x.dtype(), [&]<class T>(Type<T>) {
    const T *pg = g.data<T>(), *px = x.data<T>(), *pw = data_or_null<T>(weight), *ps = stats.data<T>();
    T *gx = result.x.data<T>(), *partial = data_or_null<T>(sums);
    parallel_ranges(rows, block, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t at = row * width;
        backward_row(gx + at, sum.defined(), pg + at, px + at, ps + 2 * row, pw, width, centering);
        if (partial) accumulate_row(partial + begin / block * 2 * width, pg + at, px + at, ps + 2 * row, width);
      }
    });
  });
  if (!with_weight) return result;
  const Array total = sums.sliced(0, 0, 1, 1);
  for (std::int64_t i = 1; i < blocks; ++i) add_in_place(total, sums.sliced(0, i, 1, 1));
  result.weight = total.sliced(1, 0, width, 1).reshaped({width}).copy();
  result.bias = total.sliced(1, width, width, 1).reshaped({width}).copy();
  return result;
}

}  // namespace tapegrad::core::kernels
