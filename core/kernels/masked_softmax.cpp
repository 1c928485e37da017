#include <tapegrad/core/kernels/masked_softmax.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include <xsimd/xsimd.hpp>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core::kernels {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 14;

std::int64_t rows_per_task(std::int64_t row) {
  return std::max<std::int64_t>(1, kElementsPerTask / std::max<std::int64_t>(1, row));
}

/// Replaces row[0 ... n) by f of it, a vector at a time; the last one is filled up with `padding`.
template <class T, class F>
void transform(T* row, std::int64_t n, T padding, F&& f) {
  using Batch = xsimd::batch<T>;
  constexpr auto kWidth = static_cast<std::int64_t>(Batch::size);
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) f(Batch::load_unaligned(row + i)).store_unaligned(row + i);
  if (i == n) return;
  alignas(64) T rest[kWidth];
  std::fill(std::copy(row + i, row + n, rest), rest + kWidth, padding);
  f(Batch::load_aligned(rest)).store_aligned(rest);
  std::copy(rest, rest + (n - i), row + i);
}

template <class T>
T largest(const xsimd::batch<T>& batch) {
  alignas(64) T lanes[xsimd::batch<T>::size];
  batch.store_aligned(lanes);
  return *std::max_element(lanes, lanes + xsimd::batch<T>::size);
}

/// Offset of the first element of row number `row` in an array with these strides.
std::int64_t row_offset(std::int64_t row, const Shape& shape, const Strides& strides) {
  std::int64_t offset = 0;
  for (int axis = shape.rank() - 2; axis >= 0; --axis) {
    offset += row % shape[axis] * strides[axis];
    row /= shape[axis];
  }
  return offset;
}

/// Softmax in place over row[0 ... n); excluded elements are -inf.
template <class T>
void normalize(T* row, std::int64_t n) {
  using Batch = xsimd::batch<T>;
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  Batch top(kNothing);
  transform(row, n, kNothing, [&](const Batch& x) {
    top = xsimd::max(top, x);
    return x;
  });
  const T maximum = largest(top);
  if (maximum == kNothing) {  // nothing is allowed; but a NaN may have lost against -inf, and must not be hidden
    const bool poisoned = std::any_of(row, row + n, [](T x) { return std::isnan(x); });
    std::fill(row, row + n, poisoned ? std::numeric_limits<T>::quiet_NaN() : T(0));
    return;
  }
  Batch total(T(0));
  transform(row, n, kNothing, [&](const Batch& x) {
    const Batch e = xsimd::exp(x - maximum);
    total += e;
    return e;
  });
  const Batch inverse(T(1) / xsimd::hadd(total));
  transform(row, n, T(0), [&](const Batch& e) { return e * inverse; });
}

template <class T>
void softmax_row(T* y, const T* x, std::int64_t n, T scale) {
  for (std::int64_t j = 0; j < n; ++j) y[j] = scale * x[j];
  normalize(y, n);
}

template <class T>
void softmax_row(T* y, const T* x, std::int64_t n, T scale, const bool* allowed, std::int64_t step) {
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  for (std::int64_t j = 0; j < n; ++j) y[j] = allowed[j * step] ? scale * x[j] : kNothing;
  normalize(y, n);
  for (std::int64_t j = 0; j < n; ++j) y[j] = allowed[j * step] ? y[j] : T(0);  // a NaN stays among the allowed
}

template <class T>
void gradient_row(T* out, const T* gradient, const T* weights, std::int64_t n, T scale) {
  using Batch = xsimd::batch<T>;
  constexpr auto kWidth = static_cast<std::int64_t>(Batch::size);
  const std::int64_t whole = n - n % kWidth;
  const Batch none(T(0));
  Batch sums = none;
  for (std::int64_t j = 0; j < whole; j += kWidth) {
    const Batch w = Batch::load_unaligned(weights + j);
    sums += xsimd::select(w == none, none, w * Batch::load_unaligned(gradient + j));
  }
  T sum = xsimd::hadd(sums);
  for (std::int64_t j = whole; j < n; ++j)
    if (weights[j] != 0) sum += weights[j] * gradient[j];
  for (std::int64_t j = 0; j < whole; j += kWidth) {
    const Batch w = Batch::load_unaligned(weights + j);
    xsimd::select(w == none, none, w * (Batch::load_unaligned(gradient + j) - sum) * scale).store_unaligned(out + j);
  }
  for (std::int64_t j = whole; j < n; ++j) out[j] = weights[j] != 0 ? weights[j] * (gradient[j] - sum) * scale : T(0);
}

std::int64_t rows_of(const Shape& shape) { return shape.back() == 0 ? 0 : shape.numel() / shape.back(); }

template <class T>
bool is_finite(const T* row, std::int64_t n) {
  T sum = 0;  // of zeros and NaNs
  for (std::int64_t j = 0; j < n; ++j) sum += row[j] * T(0);
  return sum == 0;
}

}  // namespace

Array masked_softmax(const Array& scores, const Array& mask, bool causal, double scale) {
  const Array in = scores.contiguous();
  Array out(in.shape(), in.dtype());
  const int rank = in.rank();
  const std::int64_t queries = in.size(rank - 2), keys = in.size(rank - 1);
  dispatch_floating("masked_softmax", in.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T factor = static_cast<T>(scale);
    parallel_ranges(rows_of(in.shape()), rows_per_task(keys), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* x = in.data<T>() + r * keys;
        T* y = out.data<T>() + r * keys;
        const std::int64_t seen = causal ? std::clamp<std::int64_t>(r % queries + 1 + keys - queries, 0, keys) : keys;
        if (mask.defined())
          softmax_row(y, x, seen, factor, mask.data<bool>() + row_offset(r, in.shape(), mask.strides()),
                      mask.strides()[rank - 1]);
        else
          softmax_row(y, x, seen, factor);
        std::fill(y + seen, y + keys, T(0));
      }
    });
  });
  return out;
}

Array masked_softmax_backward(const Array& gradient, const Array& weights, double scale) {
  const Array g = gradient.contiguous(), w = weights.contiguous();
  Array out(w.shape(), w.dtype());
  const std::int64_t keys = w.shape().back();
  dispatch_floating("masked_softmax", w.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    parallel_ranges(rows_of(w.shape()), rows_per_task(keys), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        gradient_row(out.data<T>() + r * keys, g.data<T>() + r * keys, w.data<T>() + r * keys, keys,
                     static_cast<T>(scale));
    });
  });
  return out;
}

bool all_finite(const Array& array) {
  if (array.numel() == 0) return true;
  const int rank = array.rank();
  const bool rows = rank > 0 && array.strides()[rank - 1] == 1;
  const Array in = rows ? array : array.contiguous();
  const std::int64_t width = rank == 0 ? 1 : in.size(rank - 1);
  std::atomic<bool> finite{true};
  dispatch_floating("all_finite", in.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    parallel_ranges(in.numel() / width, 4 * rows_per_task(width), [&](std::int64_t begin, std::int64_t end) {
      bool fine = true;
      for (std::int64_t r = begin; r < end; ++r)
        fine = is_finite(in.data<T>() + row_offset(r, in.shape(), in.strides()), width) && fine;
      if (!fine) finite.store(false, std::memory_order_relaxed);
    });
  });
  return finite;
}

}  // namespace tapegrad::core::kernels
