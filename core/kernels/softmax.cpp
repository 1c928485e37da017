#include <tapegrad/core/kernels/softmax.hpp>

#include <atomic>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/batches.hpp>
#include <tapegrad/core/kernels/rows.hpp>

namespace tapegrad::core::kernels {
namespace {

template <class T>
inline constexpr T kNothing = -std::numeric_limits<T>::infinity();

/// `axis` swapped with the last one, in row-major memory; the swap undoes itself.
Array with_axis_last(const Array& x, int axis) { return x.transposed(axis, x.rank() - 1).contiguous(); }

std::int64_t row_count(const Shape& shape) { return shape.back() == 0 ? 0 : shape.numel() / shape.back(); }

/// f(result row, input rows..., width) for each row of contiguous arrays of one shape and dtype.
template <class F, class... Arrays>
Array map_rows(const char* operation, const F& f, const Array& first, const Arrays&... others) {
  const Array result(first.shape(), first.dtype());
  const std::int64_t width = first.shape().back();
  dispatch_floating(operation, first.dtype(), [&]<class T>(Type<T>) {
    for_each_row(row_count(first.shape()), width, [&](std::int64_t row) {
      const std::int64_t at = row * width;
      f(result.data<T>() + at, static_cast<const T*>(first.data<T>() + at),
        static_cast<const T*>(others.template data<T>() + at)..., width);
    });
  });
  return result;
}

/// The softmax of a row whose largest element is `top`; y may be x.
template <class T>
void normalize(T* y, const T* x, T top, std::int64_t size) {
  using Batch = xsimd::batch<T>;
  Batch total(T(0));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    const Batch e = xsimd::exp(load(x + i, count, kNothing<T>) - Batch(top));
    total += e;
    store(y + i, e, count);
  });
  const Batch inverse(T(1) / xsimd::hadd(total));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) { store(y + i, load(y + i, count) * inverse, count); });
}

/// In place; excluded elements are -inf.
template <class T>
void normalize_allowed(T* row, std::int64_t size) {
  const T top = row_max(row, size);
  if (top != kNothing<T>) return normalize(row, row, top, size);
  // Nothing is allowed; but a NaN may have lost against -inf, and must not be hidden.
  const bool poisoned = std::any_of(row, row + size, [](T x) { return std::isnan(x); });
  std::fill_n(row, size, poisoned ? std::numeric_limits<T>::quiet_NaN() : T(0));
}

template <class T>
void masked_row(T* y, const T* x, std::int64_t size, T scale, const bool* allowed, std::int64_t step) {
  for (std::int64_t j = 0; j < size; ++j) y[j] = allowed[j * step] ? scale * x[j] : kNothing<T>;
  normalize_allowed(y, size);
  for (std::int64_t j = 0; j < size; ++j) y[j] = allowed[j * step] ? y[j] : T(0);  // a NaN stays among the allowed
}

constexpr auto kSoftmaxRow = []<class T>(T* y, const T* x, std::int64_t size) {
  normalize(y, x, row_max(x, size), size);
};

constexpr auto kLogSoftmaxRow = []<class T>(T* y, const T* x, std::int64_t size) {
  const T top = row_max(x, size), log_total = log_sum_exp_below(top, x, size);
  for_each_batch<T>(size,
                    [&](std::int64_t i, auto count) { store(y + i, load(x + i, count) - top - log_total, count); });
};

constexpr auto kSoftmaxGradientRow = []<class T>(T* gx, const T* g, const T* y, std::int64_t size) {
  xsimd::batch<T> total(T(0));
  for_each_batch<T>(
      size, [&](std::int64_t i, auto count) { total = xsimd::fma(load(g + i, count), load(y + i, count), total); });
  const T dot = xsimd::hadd(total);
  for_each_batch<T>(
      size, [&](std::int64_t i, auto count) { store(gx + i, load(y + i, count) * (load(g + i, count) - dot), count); });
};

constexpr auto kLogSoftmaxGradientRow = []<class T>(T* gx, const T* g, const T* y, std::int64_t size) {
  xsimd::batch<T> total(T(0));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) { total += load(g + i, count); });
  const T sum = xsimd::hadd(total);
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    store(gx + i, load(g + i, count) - xsimd::exp(load(y + i, count)) * sum, count);
  });
};

/// The rest of a row goes by single elements: rows of scores are short, and filling a batch costs more.
template <class T>
void masked_gradient_row(T* gx, const T* g, const T* weights, std::int64_t size, T scale) {
  using Batch = xsimd::batch<T>;
  const std::int64_t whole = size - size % kLanes<T>;
  const Batch none(T(0));
  Batch total = none;
  for_each_batch<T>(whole, [&](std::int64_t i, auto count) {
    const Batch w = load(weights + i, count);
    total += xsimd::select(w == none, none, w * load(g + i, count));
  });
  T sum = xsimd::hadd(total);
  for (std::int64_t j = whole; j < size; ++j)
    if (weights[j] != 0) sum += weights[j] * g[j];
  for_each_batch<T>(whole, [&](std::int64_t i, auto count) {
    const Batch w = load(weights + i, count);
    store(gx + i, xsimd::select(w == none, none, w * (load(g + i, count) - sum) * scale), count);
  });
  for (std::int64_t j = whole; j < size; ++j) gx[j] = weights[j] != 0 ? weights[j] * (g[j] - sum) * scale : T(0);
}

/// Offset of the first element of row number `row` in an array with these strides.
std::int64_t row_offset(std::int64_t row, const Shape& shape, const Strides& strides) {
  return batch_offset(row, shape.sub(0, shape.rank() - 1), strides);
}

template <class T>
bool is_finite(const T* row, std::int64_t size) {
  T sum = 0;  // of zeros and NaNs
  for (std::int64_t j = 0; j < size; ++j) sum += row[j] * T(0);
  return sum == 0;
}

}  // namespace

Array softmax(const Array& x, int axis) {
  return with_axis_last(map_rows("softmax", kSoftmaxRow, with_axis_last(x, axis)), axis);
}
Array log_softmax(const Array& x, int axis) {
  return with_axis_last(map_rows("log_softmax", kLogSoftmaxRow, with_axis_last(x, axis)), axis);
}
Array softmax_backward(const Array& g, const Array& y, int axis) {
  const Array rows = map_rows("softmax", kSoftmaxGradientRow, with_axis_last(g, axis), with_axis_last(y, axis));
  return with_axis_last(rows, axis);
}
Array log_softmax_backward(const Array& g, const Array& y, int axis) {
  const Array rows = map_rows("log_softmax", kLogSoftmaxGradientRow, with_axis_last(g, axis), with_axis_last(y, axis));
  return with_axis_last(rows, axis);
}

Array masked_softmax(const Array& scores, const Array& mask, const Band& band, double scale) {
  const Array in = scores.contiguous();
  Array out(in.shape(), in.dtype());
  const int rank = in.rank();
  const std::int64_t queries = in.size(rank - 2), keys = in.size(rank - 1);
  dispatch_floating("masked_softmax", in.dtype(), [&]<class T>(Type<T>) {
    const T factor = static_cast<T>(scale);
    for_each_row(row_count(in.shape()), keys, [&](std::int64_t r) {
      const std::int64_t i = r % queries;
      const Range seen = band.keys_of({i, i + 1}, queries, keys);
      const std::int64_t count = std::max<std::int64_t>(0, seen.end - seen.begin);
      const T* x = in.data<T>() + r * keys + seen.begin;
      T* y = out.data<T>() + r * keys;
      std::fill(y, y + seen.begin, T(0));
      std::fill(y + seen.begin + count, y + keys, T(0));
      y += seen.begin;
      if (mask.defined()) {
        const std::int64_t step = mask.strides()[rank - 1];
        const bool* allowed = mask.data<bool>() + row_offset(r, in.shape(), mask.strides()) + seen.begin * step;
        masked_row(y, x, count, factor, allowed, step);
      } else {
        for (std::int64_t j = 0; j < count; ++j) y[j] = factor * x[j];
        normalize_allowed(y, count);
      }
    });
  });
  return out;
}

Array masked_softmax_backward(const Array& gradient, const Array& weights, double scale) {
  const auto row = [scale]<class T>(T* gx, const T* g, const T* w, std::int64_t size) {
    masked_gradient_row(gx, g, w, size, static_cast<T>(scale));
  };
  return map_rows("masked_softmax", row, gradient.contiguous(), weights.contiguous());
}

bool all_finite(const Array& array) {
  if (array.numel() == 0) return true;
  const int rank = array.rank();
  const bool rows = rank > 0 && array.strides()[rank - 1] == 1;
  const Array in = rows ? array : array.contiguous();
  const std::int64_t width = rank == 0 ? 1 : in.size(rank - 1);
  std::atomic<bool> finite{true};
  dispatch_floating("all_finite", in.dtype(), [&]<class T>(Type<T>) {
    const auto check = [&](std::int64_t row) {
      if (!is_finite(in.data<T>() + row_offset(row, in.shape(), in.strides()), width))
        finite.store(false, std::memory_order_relaxed);
    };
    for_each_row(in.numel() / width, width, check, 4 * kElementsPerTask);
  });
  return finite;
}

}  // namespace tapegrad::core::kernels
