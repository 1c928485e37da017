// The driver of elementwise kernels: every operand is presented as contiguous memory, so that a kernel is one function
// of SIMD batches. Private to the library.
#pragma once
#include <algorithm>
#include <cstring>
#include <type_traits>

#include <tapegrad/core/kernels/rows.hpp>

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

/// Of batches only if all types are the same floating one: asking further would compile f for what it can't take.
template <class F, class Out, class... In>
concept TakesBatches = std::is_floating_point_v<Out> && std::conjunction_v<std::is_same<Out, In>...> &&
    std::is_invocable_v<const F&, xsimd::batch<In>...>;

/// f over contiguous memory. The tail runs the same batch code, so an element's value never depends on its position.
template <class F, class Out, class... In>
[[gnu::noinline]] void run(const F& function, Out* out, std::int64_t count, const In*... in) {
  const F f = function;  // a copy: stores through `out` can't reach it
  if constexpr (TakesBatches<F, Out, In...>) {
    constexpr std::int64_t kWidth = kLanes<Out>;
    std::int64_t i = 0;
    for (; i + kWidth <= count; i += kWidth) f(xsimd::batch<In>::load_unaligned(in + i)...).store_unaligned(out + i);
    const auto rest = [&]<class T>(const T* from) {  // a single number needs no detour through memory
      return count == 1 ? xsimd::batch<T>(*from) : load(from + i, count - i, from[i]);
    };
    if (i < count) store(out + i, f(rest(in)...), count - i);
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
