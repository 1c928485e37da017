#include <algorithm>

#include <tapegrad/core/error.hpp>
#include <tapegrad/core/shape.hpp>

namespace tapegrad {

Shape::Shape(const std::int64_t* first, const std::int64_t* last) : rank_(static_cast<int>(last - first)) {
  if (last - first > kMaxRank)
    throw ShapeError("Shape: at most " + std::to_string(kMaxRank) + " dimensions are supported; got " +
                     std::to_string(last - first));
  std::copy(first, last, sizes_);
}

Shape Shape::filled(int rank, std::int64_t value) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(value);
  return shape;
}

void Shape::push_back(std::int64_t size) { insert(rank_, size); }

void Shape::insert(int position, std::int64_t size) {
  if (rank_ == kMaxRank)
    throw ShapeError("Shape: at most " + std::to_string(kMaxRank) + " dimensions are supported; got one more than " +
                     to_string());
  std::copy_backward(sizes_ + position, sizes_ + rank_, sizes_ + rank_ + 1);
  sizes_[position] = size;
  ++rank_;
}

void Shape::erase(int position) {
  std::copy(sizes_ + position + 1, sizes_ + rank_, sizes_ + position);
  --rank_;
}

std::int64_t Shape::zero_or_throw() const {
  if (std::find(begin(), end(), 0) != end()) return 0;
  throw ShapeError("Shape: the number of elements must fit into 64 bits; got shape " + to_string());
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i ? ", " : "") + std::to_string(sizes_[i]);
  return text + "]";
}

Shape Axes::normalized(const char* operation, int rank) const {
  Shape axes;
  if (all()) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  // As in PyTorch, a number may be reduced over an axis 0 that it doesn't have.
  for (std::int64_t axis : axes_) axes.push_back(normalize_axis(operation, axis, std::max(rank, 1)));
  std::sort(axes.begin(), axes.end());
  const auto* twice = std::adjacent_find(axes.begin(), axes.end());
  if (twice != axes.end())
    throw ShapeError(std::string(operation) + ": an axis may be named once; got axis " + std::to_string(*twice) +
                     " twice in " + axes_.to_string());
  return rank == 0 ? Shape() : axes;
}

int normalize_axis(const char* operation, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw ShapeError(std::string(operation) + ": axis must be in [" + std::to_string(-rank) + ", " +
                     std::to_string(rank) + ") for a tensor of rank " + std::to_string(rank) + "; got " +
                     std::to_string(axis));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast_shapes(const char* operation, const Shape& a, const Shape& b) {
  if (a == b) return a;
  Shape shape = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  for (int i = 1; i <= shorter.rank(); ++i) {
    std::int64_t& size = shape[shape.rank() - i];
    const std::int64_t other = shorter[shorter.rank() - i];
    if (size == other || other == 1) continue;
    if (size != 1)
      throw ShapeError(std::string(operation) +
                       ": shapes must broadcast (equal sizes or 1, from the last dimension); got " + a.to_string() +
                       " and " + b.to_string() + "; reshape or expand one of them");
    size = other;
  }
  return shape;
}

bool is_broadcastable_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int i = 1; i <= from.rank(); ++i) {
    const std::int64_t size = from[from.rank() - i];
    if (size != 1 && size != to[to.rank() - i]) return false;
  }
  return true;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    // Past 64 bits only in an array without elements, where no stride is followed.
    if (__builtin_mul_overflow(step, std::max<std::int64_t>(shape[i], 1), &step)) step = 1;
  }
  return strides;
}

}  // namespace tapegrad
