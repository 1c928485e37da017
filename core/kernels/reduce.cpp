#include <tapegrad/core/kernels/reduce.hpp>

#include <algorithm>
#include <limits>
#include <memory>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/rows.hpp>

namespace tapegrad::core::kernels {
namespace {

constexpr std::int64_t kBlock = 2048;         // elements added in their own type; sums of blocks are added in double
constexpr std::int64_t kChunk = 16 * kBlock;  // elements of one task
constexpr std::int64_t kRows = 64;            // rows added in their own type
constexpr std::int64_t kStrip = 1024;         // columns added at a time: they stay in the first cache

struct Sum {
  template <class T>
  static constexpr T kStart = T(0);
  template <class T>
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  template <class X>
  static X combine(const X& a, const X& b) {
    return a + b;
  }
};

/// The largest or the smallest; NaN wins.
template <bool kLargest>
struct Extreme {
  template <class T>
  static constexpr T bound() {
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::has_infinity) return kLargest ? -Limits::infinity() : Limits::infinity();
    return kLargest ? Limits::lowest() : Limits::max();
  }
  template <class T>
  static constexpr T kStart = bound<T>();
  template <class T>
  using Wide = T;
  template <class X>
  static X combine(const X& a, const X& b) {
    return kLargest ? choose(a > b, a, b) : choose(a < b, a, b);
  }
};
using Max = Extreme<true>;
using Min = Extreme<false>;

/// x with `axes` moved to the end, in row-major memory.
Array with_axes_last(const Array& x, const Shape& axes) {
  Shape order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
  for (std::int64_t axis : axes) order.push_back(axis);
  return x.permuted(order).contiguous();
}

/// x as [outer, count, inner] in row-major order, to be reduced over `count`.
struct Plan {
  Array x;
  std::int64_t outer = 1, count = 1, inner = 1;
};

Plan plan(const Array& x, const Shape& axes) {
  const Shape& shape = x.shape();
  Plan plan;
  bool adjacent = true;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
      adjacent = adjacent && (plan.inner == 1 || shape[axis] == 1);
      plan.count *= shape[axis];
    } else {
      (plan.count == 1 ? plan.outer : plan.inner) *= shape[axis];
    }
  }
  if (adjacent) {
    plan.x = x.contiguous();
    return plan;
  }
  return {with_axes_last(x, axes), plan.outer * plan.inner, plan.count, 1};
}

/// Up to kBlock neighbours.
template <class Op, class T>
T reduce_block(const T* x, std::int64_t count) {
  T result = Op::template kStart<T>;
  std::int64_t i = 0;
  if constexpr (std::is_floating_point_v<T>) {
    using Batch = xsimd::batch<T>;
    constexpr auto kWidth = static_cast<std::int64_t>(Batch::size);
    if (count >= kWidth) {
      Batch a(result), b(result), c(result), d(result);
      for (; i + 4 * kWidth <= count; i += 4 * kWidth) {
        a = Op::combine(a, Batch::load_unaligned(x + i));
        b = Op::combine(b, Batch::load_unaligned(x + i + kWidth));
        c = Op::combine(c, Batch::load_unaligned(x + i + 2 * kWidth));
        d = Op::combine(d, Batch::load_unaligned(x + i + 3 * kWidth));
      }
      for (; i + kWidth <= count; i += kWidth) a = Op::combine(a, Batch::load_unaligned(x + i));
      alignas(64) T lanes[kWidth];
      Op::combine(Op::combine(a, b), Op::combine(c, d)).store_aligned(lanes);
      for (std::int64_t half = kWidth / 2; half > 0; half /= 2)
        for (std::int64_t k = 0; k < half; ++k) lanes[k] = Op::combine(lanes[k], lanes[k + half]);
      result = lanes[0];
    }
  }
  for (; i < count; ++i) result = Op::combine(result, x[i]);
  return result;
}

template <class Op, class T>
typename Op::template Wide<T> reduce_chunk(const T* x, std::int64_t count) {
  using Wide = typename Op::template Wide<T>;
  Wide result = Op::template kStart<Wide>;
  for (std::int64_t i = 0; i < count; i += kBlock)
    result = Op::combine(result, static_cast<Wide>(reduce_block<Op>(x + i, std::min(kBlock, count - i))));
  return result;
}

/// x [rows, count] over its last axis.
template <class Op, class T>
void reduce_rows(const T* x, std::int64_t rows, std::int64_t count, T* out) {
  if (count <= kChunk) {
    const auto reduce_row = [&](std::int64_t row) {
      out[row] = static_cast<T>(reduce_chunk<Op>(x + row * count, count));
    };
    return for_each_row(rows, count, reduce_row, kChunk);
  }
  using Wide = typename Op::template Wide<T>;
  const std::int64_t chunks = (count + kChunk - 1) / kChunk;
  const auto parts = std::make_unique<Wide[]>(static_cast<std::size_t>(rows * chunks));
  parallel_for(rows * chunks, [&](std::int64_t task) {
    const std::int64_t row = task / chunks, begin = task % chunks * kChunk;
    parts[task] = reduce_chunk<Op>(x + row * count + begin, std::min(kChunk, count - begin));
  });
  for (std::int64_t row = 0; row < rows; ++row) {
    Wide result = Op::template kStart<Wide>;
    for (std::int64_t i = 0; i < chunks; ++i) result = Op::combine(result, parts[row * chunks + i]);
    out[row] = static_cast<T>(result);
  }
}

/// `rows` rows of `width` neighbours, `stride` apart: four rows are combined before they meet what is there.
template <class Op, class T>
void reduce_strip(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t width, T* __restrict out) {
  std::fill_n(out, width, Op::template kStart<T>);
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4, x += 4 * stride) {
    const T *a = x, *b = x + stride, *c = x + 2 * stride, *d = x + 3 * stride;
    for (std::int64_t i = 0; i < width; ++i)
      out[i] = Op::combine(out[i], Op::combine(Op::combine(a[i], b[i]), Op::combine(c[i], d[i])));
  }
  for (; row < rows; ++row, x += stride)
    for (std::int64_t i = 0; i < width; ++i) out[i] = Op::combine(out[i], x[i]);
}

/// out [outer, inner] from partial results [outer, parts, inner].
template <class Op, class T>
void combine_parts(const T* partial, std::int64_t outer, std::int64_t parts, std::int64_t inner, T* out) {
  using Wide = typename Op::template Wide<T>;
  const std::int64_t strips = (inner + kStrip - 1) / kStrip;
  const auto combine_strip = [&](std::int64_t task) {
    const std::int64_t from = task / strips, column = task % strips * kStrip, width = std::min(kStrip, inner - column);
    Wide total[kStrip];
    std::fill_n(total, width, Op::template kStart<Wide>);
    for (std::int64_t part = 0; part < parts; ++part) {
      const T* row = partial + (from * parts + part) * inner + column;
      for (std::int64_t i = 0; i < width; ++i) total[i] = Op::combine(total[i], static_cast<Wide>(row[i]));
    }
    for (std::int64_t i = 0; i < width; ++i) out[from * inner + column + i] = static_cast<T>(total[i]);
  };
  for_each_row(outer * strips, parts * std::min(inner, kStrip), combine_strip, kChunk);
}

/// x [outer, count, inner] over its middle axis.
template <class Op, class T>
void reduce_columns(const T* x, std::int64_t outer, std::int64_t count, std::int64_t inner, T* out) {
  const std::int64_t parts = std::max<std::int64_t>(1, (count + kRows - 1) / kRows);
  const std::int64_t strips = (inner + kStrip - 1) / kStrip;
  const std::int64_t cost = std::clamp<std::int64_t>(count, 1, kRows) * std::min(inner, kStrip);
  Array partial;
  if (parts > 1) partial = Array({outer, parts, inner}, dtype_of<T>);
  T* const to = parts > 1 ? partial.data<T>() : out;
  const auto reduce_one = [&](std::int64_t task) {
    const std::int64_t block = task / strips, column = task % strips * kStrip, row = block % parts * kRows;
    reduce_strip<Op>(x + (block / parts * count + row) * inner + column, std::min(kRows, count - row), inner,
                     std::min(kStrip, inner - column), to + block * inner + column);
  };
  for_each_row(outer * parts * strips, cost, reduce_one, kChunk);
  if (parts > 1) combine_parts<Op>(to, outer, parts, inner, out);
}

template <class Op>
Array reduce(const Array& x, const Shape& axes, bool keepdim) {
  const Plan p = plan(x, axes);
  Array out(reduced_shape(x.shape(), axes, keepdim), x.dtype());
  if (out.numel() == 0) return out;
  dispatch(x.dtype(), [&]<class T>(Type<T>) {
    if (p.inner == 1)
      reduce_rows<Op>(p.x.data<T>(), p.outer, p.count, out.data<T>());
    else
      reduce_columns<Op>(p.x.data<T>(), p.outer, p.count, p.inner, out.data<T>());
  });
  return out;
}

template <class Op>
Extremes reduce_along(const Array& x, int axis, bool keepdim) {
  const Shape axes = x.rank() > 0 ? Shape{axis} : Shape{};
  const Array rows = with_axes_last(x, axes);
  const Shape shape = reduced_shape(x.shape(), axes, keepdim);
  const Extremes result{Array(shape, x.dtype()), Array(shape, Dtype::int64)};
  const std::int64_t count = x.rank() > 0 ? x.size(axis) : 1;
  dispatch(x.dtype(), [&]<class T>(Type<T>) {
    T* const values = result.values.data<T>();
    reduce_rows<Op>(rows.data<T>(), shape.numel(), count, values);
    for_each_row(shape.numel(), count, [&](std::int64_t i) {
      const T *row = rows.data<T>() + i * count, value = values[i];
      const T* found = std::find_if(row, row + count, [value](T v) { return v == value || v != v; });
      result.indices.data<std::int64_t>()[i] = found - row;
    });
  });
  return result;
}

}  // namespace

Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdim) {
  Shape result = shape;
  for (int i = axes.rank() - 1; i >= 0; --i) {
    if (keepdim)
      result[static_cast<int>(axes[i])] = 1;
    else
      result.erase(static_cast<int>(axes[i]));
  }
  return result;
}

Array sum(const Array& x, const Shape& axes, bool keepdim) {
  return reduce<Sum>(x.dtype() == Dtype::boolean ? x.converted(Dtype::int64) : x, axes, keepdim);
}

Array running_sum(const Array& any, int axis, bool reversed) {
  const Array x = (any.dtype() == Dtype::boolean ? any.converted(Dtype::int64) : any).contiguous();
  const Array out(x.shape(), x.dtype());
  const std::int64_t count = x.size(axis), outer = x.shape().sub(0, axis).numel();
  const std::int64_t inner = x.shape().sub(axis + 1, x.rank()).numel(), strips = (inner + kStrip - 1) / kStrip;
  dispatch(x.dtype(), [&]<class T>(Type<T>) {
    using Wide = Sum::Wide<T>;
    const T* const from = x.data<T>();
    T* const to = out.data<T>();
    const std::int64_t step = reversed ? -inner : inner;
    const auto sum_strip = [=](std::int64_t task) {
      const std::int64_t column = task % strips * kStrip, width = std::min(kStrip, inner - column);
      std::int64_t at = (task / strips * count + (reversed ? count - 1 : 0)) * inner + column;
      if (inner == 1) {  // the sum stays in a register
        Wide total(0);
        for (std::int64_t i = 0; i < count; ++i, at += step) to[at] = static_cast<T>(total += from[at]);
        return;
      }
      Wide total[kStrip];
      std::fill_n(total, width, Wide(0));
      for (std::int64_t i = 0; i < count; ++i, at += step)
        for (std::int64_t k = 0; k < width; ++k) to[at + k] = static_cast<T>(total[k] += from[at + k]);
    };
    for_each_row(outer * strips, count * std::min(inner, kStrip), sum_strip, kChunk);
  });
  return out;
}
Array amax(const Array& x, const Shape& axes, bool keepdim) { return reduce<Max>(x, axes, keepdim); }
Array amin(const Array& x, const Shape& axes, bool keepdim) { return reduce<Min>(x, axes, keepdim); }
Extremes max_along(const Array& x, int axis, bool keepdim) { return reduce_along<Max>(x, axis, keepdim); }
Extremes min_along(const Array& x, int axis, bool keepdim) { return reduce_along<Min>(x, axis, keepdim); }

}  // namespace tapegrad::core::kernels
