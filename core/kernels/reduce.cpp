#include <tapegrad/core/kernels/reduce.hpp>

#include <algorithm>
#include <limits>
#include <memory>

#include <xsimd/xsimd.hpp>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/threads.hpp>

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

template <class X, class C>
X choose(const C& chosen, const X& a, const X& b) {
  if constexpr (std::is_arithmetic_v<X>)
    return chosen || a != a ? a : b;
  else
    return xsimd::select(chosen | xsimd::isnan(a), a, b);  // xsimd's a != a is false for NaN
}
struct Max {
  template <class T>
  static constexpr T kStart = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                                   : std::numeric_limits<T>::lowest();
  template <class T>
  using Wide = T;
  template <class X>
  static X combine(const X& a, const X& b) {
    return choose(a > b, a, b);
  }
};
struct Min {
  template <class T>
  static constexpr T kStart = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                                   : std::numeric_limits<T>::max();
  template <class T>
  using Wide = T;
  template <class X>
  static X combine(const X& a, const X& b) {
    return choose(a < b, a, b);
  }
};

/// x as [outer, count, inner] in row-major order, to be reduced over `count`.
struct Plan {
  Array x;
  std::int64_t outer = 1, count = 1, inner = 1;
};

Plan plan(const Array& x, const Shape& axes) {
  const Shape& shape = x.shape();
  bool reduced[Shape::kMaxRank] = {};
  for (std::int64_t axis : axes) reduced[axis] = true;
  Plan plan;
  bool adjacent = true;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (reduced[axis]) {
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
  Shape order;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (!reduced[axis]) order.push_back(axis);
  for (std::int64_t axis : axes) order.push_back(axis);
  plan.x = x.permuted(order).contiguous();
  plan.outer *= plan.inner;
  plan.inner = 1;
  return plan;
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
    parallel_ranges(rows, std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(1, count)),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t row = begin; row < end; ++row)
                        out[row] = static_cast<T>(reduce_chunk<Op>(x + row * count, count));
                    });
    return;
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
  const std::int64_t cost = parts * std::min(inner, kStrip);
  parallel_ranges(outer * strips, std::max<std::int64_t>(1, kChunk / cost), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t from = task / strips, column = task % strips * kStrip,
                         width = std::min(kStrip, inner - column);
      Wide total[kStrip];
      std::fill_n(total, width, Op::template kStart<Wide>);
      for (std::int64_t part = 0; part < parts; ++part) {
        const T* row = partial + (from * parts + part) * inner + column;
        for (std::int64_t i = 0; i < width; ++i) total[i] = Op::combine(total[i], static_cast<Wide>(row[i]));
      }
      for (std::int64_t i = 0; i < width; ++i) out[from * inner + column + i] = static_cast<T>(total[i]);
    }
  });
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
  parallel_ranges(outer * parts * strips, std::max<std::int64_t>(1, kChunk / cost),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t task = begin; task < end; ++task) {
                      const std::int64_t block = task / strips, column = task % strips * kStrip;
                      const std::int64_t row = block % parts * kRows;
                      reduce_strip<Op>(x + (block / parts * count + row) * inner + column, std::min(kRows, count - row),
                                       inner, std::min(kStrip, inner - column), to + block * inner + column);
                    }
                  });
  if (parts > 1) combine_parts<Op>(to, outer, parts, inner, out);
}

template <class Op>
Array reduce(const Array& x, const Shape& axes, bool keepdim) {
  const Plan p = plan(x, axes);
  Array out(reduced_shape(x.shape(), axes, keepdim), x.dtype());
  if (out.numel() == 0) return out;
  dispatch(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if (p.inner == 1)
      reduce_rows<Op>(p.x.data<T>(), p.outer, p.count, out.data<T>());
    else
      reduce_columns<Op>(p.x.data<T>(), p.outer, p.count, p.inner, out.data<T>());
  });
  return out;
}

template <class Op>
Extremes reduce_along(const Array& x, int axis, bool keepdim) {
  Shape order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) order.push_back(i);
  if (x.rank() > 0) order.push_back(axis);
  const Array rows = x.permuted(order).contiguous();
  const Shape shape = x.rank() > 0 ? reduced_shape(x.shape(), {axis}, keepdim) : Shape{};
  Extremes result{Array(shape, x.dtype()), Array(shape, Dtype::int64)};
  const std::int64_t count = x.rank() > 0 ? x.size(axis) : 1;
  dispatch(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* const values = result.values.data<T>();
    std::int64_t* const indices = result.indices.data<std::int64_t>();
    reduce_rows<Op>(rows.data<T>(), shape.numel(), count, values);
    parallel_ranges(
        shape.numel(), std::max<std::int64_t>(1, kChunk / count), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const T *row = rows.data<T>() + i * count, value = values[i];
            indices[i] = std::find_if(row, row + count, [value](T v) { return v == value || v != v; }) - row;
          }
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
Array amax(const Array& x, const Shape& axes, bool keepdim) { return reduce<Max>(x, axes, keepdim); }
Array amin(const Array& x, const Shape& axes, bool keepdim) { return reduce<Min>(x, axes, keepdim); }
Extremes max_along(const Array& x, int axis, bool keepdim) { return reduce_along<Max>(x, axis, keepdim); }
Extremes min_along(const Array& x, int axis, bool keepdim) { return reduce_along<Min>(x, axis, keepdim); }

}  // namespace tapegrad::core::kernels
