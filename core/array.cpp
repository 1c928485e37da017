#include <algorithm>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core {

// An int64 times an element's size of at most 8 may be past 64 bits: saturated, it is still more than any storage.
Array::Array(const Shape& shape, Dtype dtype)
    : storage_(Shared<Storage>::adopt(
          Storage::create(static_cast<std::size_t>(std::min(shape.numel(), std::int64_t{1} << 59) * size_of(dtype))))),
      dtype_(dtype),
      shape_(shape),
      strides_(contiguous_strides(shape)) {}

bool Array::is_contiguous() const {
  if (numel() <= 1) return true;
  std::int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[i] != step) return false;
    step *= shape_[i];
  }
  return true;
}

Array Array::permuted(const Shape& axes) const {
  Shape shape = shape_;
  Strides strides = strides_;
  for (int i = 0; i < rank(); ++i) {
    shape[i] = shape_[static_cast<int>(axes[i])];
    strides[i] = strides_[static_cast<int>(axes[i])];
  }
  return Array(storage_, offset_, shape, strides, dtype_);
}

Array Array::transposed(int a, int b) const {
  Array view = *this;
  std::swap(view.shape_[a], view.shape_[b]);
  std::swap(view.strides_[a], view.strides_[b]);
  return view;
}

Array Array::sliced(int axis, std::int64_t start, std::int64_t count, std::int64_t step) const {
  Array view = *this;
  if (count > 0) view.offset_ += start * strides_[axis];  // an empty view must not point past the end
  view.shape_[axis] = count;
  view.strides_[axis] *= step;
  return view;
}

Array Array::expanded(const Shape& shape) const {
  if (shape == shape_) return *this;
  shape.numel();  // throws where views of more elements than can be counted would begin
  Strides strides = Strides::filled(shape.rank(), 0);
  const int added = shape.rank() - rank();
  for (int i = 0; i < rank(); ++i)
    if (shape_[i] == shape[added + i]) strides[added + i] = strides_[i];
  return Array(storage_, offset_, shape, strides, dtype_);
}

std::optional<Array> Array::reshaped_view(const Shape& shape) const {
  if (is_contiguous()) return Array(storage_, offset_, shape, contiguous_strides(shape), dtype_);
  // Runs of old dimensions that one stride could walk are matched, from the last, with new dimensions of the same size.
  Strides strides = shape;
  int next = shape.rank() - 1;
  std::int64_t run = 1;   // elements of the run of old dimensions so far
  std::int64_t base = 1;  // stride of its innermost dimension
  bool open = false;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1) {
      if (!open) base = strides_[i];
      open = true;
      run *= shape_[i];
    }
    int before = i - 1;
    while (before >= 0 && shape_[before] == 1) --before;
    if (before >= 0 && strides_[before] == run * base) continue;
    std::int64_t matched = 1;
    for (; next >= 0 && (matched < run || shape[next] == 1); --next) {
      strides[next] = matched * base;
      matched *= shape[next];
    }
    if (matched != run) return std::nullopt;
    run = 1;
    open = false;
    i = before + 1;
  }
  return Array(storage_, offset_, shape, strides, dtype_);
}

Array Array::contiguous() const { return is_contiguous() ? *this : copy(); }

Array Array::reshaped(const Shape& shape) const {
  if (std::optional<Array> view = reshaped_view(shape)) return *view;
  return *copy().reshaped_view(shape);
}

Array Array::copy() const {
  Array result(shape_, dtype_);
  copy_into(result, *this);
  return result;
}

Array Array::converted(Dtype dtype) const {
  if (dtype == dtype_) return *this;
  Array result(shape_, dtype);
  copy_into(result, *this);
  return result;
}

}  // namespace tapegrad::core
