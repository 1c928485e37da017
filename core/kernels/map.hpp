// The driver of elementwise kernels: every operand is presented as contiguous memory, so that a kernel is one function
// of SIMD batches. Private to the library.
#pragma once
#include <algorithm>
#include <cstring>
#include <type_traits>

#include <xsimd/xsimd.hpp>

#include <tapegrad/core/array.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core::kernels {

/// Elements of one task: large enough to pay for waking a thread.
inline constexpr std::int64_t kGrain = 32768;

/// Where the elements of a broadcast or strided operand lie, with as few dimensions as say it.
class Layout {
 public:
  Layout(const Array& array, const Shape& shape);

  /// After so many elements (in row-major order of the full shape) the operand starts again; 0 if it never does.
  std::int64_t period() const { return period_; }
  /// Copies `count` elements, beginning with number `begin` in row-major order of the full shape.
  template <class T>
  void gather(const T* from, std::int64_t begin, std::int64_t count, T* to) const;

 private:
  Shape sizes_;
  Strides strides_;
  std::int64_t period_ = 0;
};

template <class T>
void Layout::gather(const T* from, std::int64_t begin, std::int64_t count, T* to) const {
  const int last = sizes_.rank() - 1;
  Shape position = sizes_;
  std::int64_t offset = 0;
  for (int axis = last; axis >= 0; --axis) {
    position[axis] = begin % sizes_[axis];
    begin /= sizes_[axis];
    offset += position[axis] * strides_[axis];
  }
  while (true) {
    const std::int64_t run = std::min(count, sizes_[last] - position[last]), stride = strides_[last];
    const T* source = from + offset;
    if (stride == 0) {
      std::fill_n(to, run, *source);
    } else if (stride == 1) {
      std::copy_n(source, run, to);
    } else {
      for (std::int64_t i = 0; i < run; ++i) to[i] = source[i * stride];
    }
    to += run;
    if ((count -= run) == 0) return;
    offset -= position[last] * stride;
    position[last] = 0;
    for (int axis = last - 1;; --axis) {
      offset += strides_[axis];
      if (++position[axis] < sizes_[axis]) break;
      offset -= sizes_[axis] * strides_[axis];
      position[axis] = 0;
    }
  }
}

/// One operand, block by block. A short period (one number, a bias) is laid out once and then only pointed into.
template <class T>
class Operand {
 public:
  static constexpr std::int64_t kBlock = 1024;

  /// For a walk over `count` elements.
  Operand(const Array& array, const Shape& shape, std::int64_t count) : from_(array.data<T>()), layout_(array, shape) {
    const std::int64_t period = layout_.period();
    if (period == 0 || period > kBlock) return;
    period_ = period;
    layout_.gather(from_, 0, period, block_);
    const std::int64_t needed = period + std::min(count, kBlock);
    for (std::int64_t filled = period; filled < needed; filled += period)
      std::copy_n(block_, std::min(period, needed - filled), block_ + filled);
  }
  const T* at(std::int64_t begin, std::int64_t count) {
    if (period_ != 0) return block_ + begin % period_;
    layout_.gather(from_, begin, count, block_);
    return block_;
  }

 private:
  const T* from_;
  Layout layout_;
  std::int64_t period_ = 0;
  alignas(64) T block_[2 * kBlock];
};

/// Up to a batch of elements; the rest of the batch repeats the first.
template <class T>
xsimd::batch<T> load_some(const T* from, std::int64_t count) {
  constexpr auto kWidth = xsimd::batch<T>::size;
  if (count == 1) return xsimd::batch<T>(*from);
  alignas(64) T elements[kWidth];
  for (std::size_t i = 0; i < kWidth; ++i) elements[i] = from[static_cast<std::int64_t>(i) < count ? i : 0];
  return xsimd::batch<T>::load_aligned(elements);
}
template <class T>
void store_some(const xsimd::batch<T>& batch, T* to, std::int64_t count) {
  alignas(64) T elements[xsimd::batch<T>::size];
  batch.store_aligned(elements);
  std::copy_n(elements, count, to);
}

template <class F, class Out, class... In>
constexpr bool takes_batches() {
  if constexpr (std::is_floating_point_v<Out> && (std::is_same_v<Out, In> && ...))
    return std::is_invocable_v<const F&, xsimd::batch<In>...>;
  else
    return false;
}

/// f over contiguous memory. The tail runs the same batch code, so an element's value never depends on its position.
template <class F, class Out, class... In>
[[gnu::noinline]] void run(const F& function, Out* out, std::int64_t count, const In*... in) {
  const F f = function;  // a copy: stores through `out` can't reach it
  if constexpr (takes_batches<F, Out, In...>()) {
    constexpr auto kWidth = static_cast<std::int64_t>(xsimd::batch<Out>::size);
    std::int64_t i = 0;
    for (; i + kWidth <= count; i += kWidth) f(xsimd::batch<In>::load_unaligned(in + i)...).store_unaligned(out + i);
    if (i < count) store_some(f(load_some(in + i, count - i)...), out + i, count - i);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(in[i]...);
  }
}

template <class F, class Out, class... In>
void run_blocks(const F& f, Out* out, std::int64_t begin, std::int64_t end, Operand<In>&&... operands) {
  constexpr std::int64_t kBlock = Operand<Out>::kBlock;
  for (; begin < end; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, end - begin);
    run(f, out + begin, count, operands.at(begin, count)...);
  }
}

/// Large operands whose neighbours lie far apart are copied as a whole: that goes by tiles, a gathered block would not.
Array in_rows(const Array& array);

/// out[i] = f(inputs[i]...) over out's shape, to which the inputs broadcast; `out` is contiguous, and may be an input
/// of the same shape. Out and In are the element types. f takes batches where all types are the same floating one
/// (unless it accepts plain numbers alone), else single elements.
template <class Out, class... In, class F, class... Arrays>
void map_into(const Array& out, const F& f, const Arrays&... inputs) {
  static_assert(sizeof...(In) == sizeof...(Arrays));
  const std::int64_t count = out.numel();
  Out* const to = out.data<Out>();
  if (count == 1) return run(f, to, 1, static_cast<const In*>(inputs.template data<In>())...);
  const Shape& shape = out.shape();
  if (((inputs.shape() == shape && inputs.is_contiguous()) && ...)) {
    parallel_ranges(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      run(f, to + begin, end - begin, static_cast<const In*>(inputs.template data<In>() + begin)...);
    });
  } else {
    const auto walk = [&](const auto&... operands) {
      parallel_ranges(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
        run_blocks(f, to, begin, end, Operand<In>(operands, shape, end - begin)...);
      });
    };
    walk(in_rows(inputs)...);
  }
}

/// The same into a new array of this shape.
template <class Out, class... In, class F, class... Arrays>
Array map(const Shape& shape, const F& f, const Arrays&... inputs) {
  Array out(shape, dtype_of<Out>);
  map_into<Out, In...>(out, f, inputs...);
  return out;
}

/// The shape of the result of two operands.
inline Shape common_shape(const char* operation, const Array& a, const Array& b) {
  return a.shape() == b.shape() ? a.shape() : broadcast_shapes(operation, a.shape(), b.shape());
}

}  // namespace tapegrad::core::kernels
