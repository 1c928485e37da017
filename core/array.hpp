// A strided array of run-time dtype: shared storage, shape, strides. It knows nothing of gradients.
#pragma once
#include <cstdint>
#include <optional>

#include <tapegrad/core/dtype.hpp>
#include <tapegrad/core/shape.hpp>
#include <tapegrad/core/storage.hpp>

namespace tapegrad::core {

/// Copying an Array shares its storage. Strides are in elements; an expanded dimension has stride 0.
class Array {
 public:
  Array() = default;
  /// New storage with undefined content.
  Array(const Shape& shape, Dtype dtype);
  /// A view of `storage`.
  Array(Shared<Storage> storage, std::int64_t offset, const Shape& shape, const Strides& strides, Dtype dtype)
      : storage_(std::move(storage)), offset_(offset), dtype_(dtype), shape_(shape), strides_(strides) {}

  bool defined() const { return static_cast<bool>(storage_); }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  std::int64_t size(int axis) const { return shape_[axis]; }
  int rank() const { return shape_.rank(); }
  std::int64_t numel() const { return shape_.numel(); }
  Dtype dtype() const { return dtype_; }
  std::int64_t offset() const { return offset_; }
  const Shared<Storage>& storage() const { return storage_; }
  /// Row-major without gaps (an empty array and one of a single element always are).
  bool is_contiguous() const;
  /// Nobody else holds the storage, and this array covers it.
  bool owns_alone() const { return storage_ && storage_->unique(); }

  /// The first element. T must be the dtype's type; not checked.
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(storage_->data()) + offset_;
  }

  // Views: no element is copied. The callers have checked the arguments.
  Array permuted(const Shape& axes) const;
  Array transposed(int a, int b) const;
  /// Elements start, start + step, ... (count of them) along `axis`; step may be negative.
  Array sliced(int axis, std::int64_t start, std::int64_t count, std::int64_t step) const;
  /// Repeats dimensions of size 1, and adds dimensions in front, with stride 0.
  Array expanded(const Shape& shape) const;
  /// The same elements in row-major order under another shape, if strides can say so.
  std::optional<Array> reshaped_view(const Shape& shape) const;

  /// This array if it is contiguous (or undefined), else a copy that is.
  Array contiguous() const;
  /// A view if possible, else a copy.
  Array reshaped(const Shape& shape) const;
  Array copy() const;
  /// Itself if the dtype is the same, else converted (floats to int64 truncate; to boolean: nonzero is true).
  Array converted(Dtype dtype) const;

 private:
  Shared<Storage> storage_;
  std::int64_t offset_ = 0;
  Dtype dtype_ = Dtype::float32;
  Shape shape_;
  Strides strides_;
};

/// Writes `from`, of any strides and dtype, over `to`, of any strides; `from` broadcasts.
void copy_into(const Array& to, const Array& from);

}  // namespace tapegrad::core
