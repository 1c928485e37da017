#include <cmath>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/rows.hpp>
#include <tapegrad/core/kernels/softmax.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core::kernels {
namespace {

/// `axis` swapped with the last one, in row-major memory; the swap undoes itself.
Array with_axis_last(const Array& x, int axis) { return x.transposed(axis, x.rank() - 1).contiguous(); }

/// f(result row, x row, size) for each row of x.
template <class T, class F>
void for_each_row(const Array& result, const Array& x, F&& f) {
  const std::int64_t width = x.shape().back();
  if (x.numel() == 0) return;
  parallel_ranges(x.numel() / width, rows_per_task(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      f(result.data<T>() + row * width, x.data<T>() + row * width, width);
  });
}

template <class T>
void softmax_row(T* y, const T* x, std::int64_t size) {
  using Batch = xsimd::batch<T>;
  const Batch top(row_max(x, size));
  Batch total(T(0));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    const Batch e = xsimd::exp(load(x + i, count, -std::numeric_limits<T>::infinity()) - top);
    total += e;
    store(y + i, e, count);
  });
  const Batch inverse(T(1) / xsimd::hadd(total));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) { store(y + i, load(y + i, count) * inverse, count); });
}

template <class T>
void log_softmax_row(T* y, const T* x, std::int64_t size) {
  using Batch = xsimd::batch<T>;
  const Batch top(row_max(x, size));
  Batch total(T(0));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    total += xsimd::exp(load(x + i, count, -std::numeric_limits<T>::infinity()) - top);
  });
  const Batch log_total(std::log(xsimd::hadd(total)));
  for_each_batch<T>(size,
                    [&](std::int64_t i, auto count) { store(y + i, load(x + i, count) - top - log_total, count); });
}

template <class T>
void softmax_backward_row(T* gx, const T* g, const T* y, std::int64_t size) {
  using Batch = xsimd::batch<T>;
  Batch total(T(0));
  for_each_batch<T>(
      size, [&](std::int64_t i, auto count) { total = xsimd::fma(load(g + i, count), load(y + i, count), total); });
  const Batch dot(xsimd::hadd(total));
  for_each_batch<T>(
      size, [&](std::int64_t i, auto count) { store(gx + i, load(y + i, count) * (load(g + i, count) - dot), count); });
}

template <class T>
void log_softmax_backward_row(T* gx, const T* g, const T* y, std::int64_t size) {
  using Batch = xsimd::batch<T>;
  Batch total(T(0));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) { total += load(g + i, count); });
  const Batch sum(xsimd::hadd(total));
  for_each_batch<T>(size, [&](std::int64_t i, auto count) {
    store(gx + i, load(g + i, count) - xsimd::exp(load(y + i, count)) * sum, count);
  });
}

}  // namespace

Array softmax(const Array& x, int axis) {
  return dispatch_floating("softmax", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const Array rows = with_axis_last(x, axis);
    const Array y(rows.shape(), x.dtype());
    for_each_row<T>(y, rows, softmax_row<T>);
    return with_axis_last(y, axis);
  });
}

Array log_softmax(const Array& x, int axis) {
  return dispatch_floating("log_softmax", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const Array rows = with_axis_last(x, axis);
    const Array y(rows.shape(), x.dtype());
    for_each_row<T>(y, rows, log_softmax_row<T>);
    return with_axis_last(y, axis);
  });
}

Array softmax_backward(const Array& g, const Array& y, int axis) {
  return dispatch_floating("softmax", y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const Array rows = with_axis_last(y, axis), gradient = with_axis_last(g, axis);
    const Array result(rows.shape(), y.dtype());
    for_each_row<T>(result, rows, [&](T* gx, const T* row, std::int64_t size) {
      softmax_backward_row(gx, gradient.data<T>() + (row - rows.data<T>()), row, size);
    });
    return with_axis_last(result, axis);
  });
}

Array log_softmax_backward(const Array& g, const Array& y, int axis) {
  return dispatch_floating("log_softmax", y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const Array rows = with_axis_last(y, axis), gradient = with_axis_last(g, axis);
    const Array result(rows.shape(), y.dtype());
    for_each_row<T>(result, rows, [&](T* gx, const T* row, std::int64_t size) {
      log_softmax_backward_row(gx, gradient.data<T>() + (row - rows.data<T>()), row, size);
    });
    return with_axis_last(result, axis);
  });
}

}  // namespace tapegrad::core::kernels
