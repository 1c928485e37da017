// Shapes, strides and axes: short lists of integers that live without heap memory; and broadcasting.
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace tapegrad {

/// Up to kMaxRank integers: sizes of dimensions, strides (in elements) or axes.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(sizes.begin(), sizes.end()) {}
  explicit Shape(const std::vector<std::int64_t>& sizes) : Shape(sizes.data(), sizes.data() + sizes.size()) {}
  Shape(const std::int64_t* first, const std::int64_t* last);
  /// `rank` times `value`.
  static Shape filled(int rank, std::int64_t value);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](int i) const { return sizes_[i]; }
  std::int64_t& operator[](int i) { return sizes_[i]; }
  std::int64_t back() const { return sizes_[rank_ - 1]; }
  const std::int64_t* begin() const { return sizes_; }
  const std::int64_t* end() const { return sizes_ + rank_; }
  std::int64_t* begin() { return sizes_; }
  std::int64_t* end() { return sizes_ + rank_; }
  /// Product of all entries; 1 for rank 0. ShapeError if it is above what an int64 holds.
  std::int64_t numel() const {
    std::int64_t product = 1;
    for (std::int64_t size : *this)
      if (__builtin_mul_overflow(product, size, &product)) return zero_or_throw();
    return product;
  }

  void push_back(std::int64_t size);
  void insert(int position, std::int64_t size);
  void erase(int position);
  /// Entries [first, last).
  Shape sub(int first, int last) const { return Shape(sizes_ + first, sizes_ + last); }

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.sizes_[i] != b.sizes_[i]) return false;
    return true;
  }
  /// "[2, 3]"
  std::string to_string() const;

 private:
  std::int64_t zero_or_throw() const;

  int rank_ = 0;  // first: what is read of a short shape lies in one cache line
  std::int64_t sizes_[kMaxRank];
};

using Strides = Shape;

/// One or several axes of an operation; negative ones count from the end. No axis at all means every axis.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{axis} {}
  Axes(std::int64_t axis) : axes_{axis} {}
  template <std::same_as<bool> B>
  Axes(B) = delete;  // keepdim stands behind the axes
  Axes(std::initializer_list<std::int64_t> axes) : axes_(axes) {}
  explicit Axes(const Shape& axes) : axes_(axes) {}
  bool all() const { return axes_.empty(); }
  /// Sorted, from 0; all axes of `rank` if none were given. ShapeError if one is outside the rank or given twice.
  Shape normalized(const char* operation, int rank) const;

 private:
  Shape axes_;
};

/// One axis counted from 0; ShapeError in the operation's name if it is outside [-rank, rank).
int normalize_axis(const char* operation, std::int64_t axis, int rank);
/// NumPy's rule; ShapeError that names both shapes if they don't broadcast.
Shape broadcast_shapes(const char* operation, const Shape& a, const Shape& b);
bool is_broadcastable_to(const Shape& from, const Shape& to);
/// Row-major strides.
Strides contiguous_strides(const Shape& shape);

}  // namespace tapegrad
