// Indexing as in NumPy: index(x, {0, Slice{1, 3}, ellipsis, newaxis, rows}).
#pragma once
#include <concepts>
#include <optional>
#include <variant>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// Elements start, start + step, ... before stop: Python's start:stop:step, with its rules for what is left out,
/// negative or too large. Slice{} is every element; Slice{.step = -1} is every element from the last to the first.
struct Slice {
  std::optional<std::int64_t> start = {};
  std::optional<std::int64_t> stop = {};
  std::optional<std::int64_t> step = {};
};
/// As many `Slice{}` as are missing; at most one of it.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;
/// A new dimension of size 1.
struct NewAxis {};
inline constexpr NewAxis newaxis;

/// What may stand at a position of an index.
struct IndexItem {
  template <std::integral I>
  requires(!std::same_as<I, bool>) IndexItem(I position) : item(static_cast<std::int64_t>(position)) {}
  IndexItem(const Slice& range) : item(range) {}
  IndexItem(Ellipsis rest) : item(rest) {}
  IndexItem(NewAxis added) : item(added) {}
  /// Integers are positions along one axis; a boolean mask of rank r stands for r axes.
  IndexItem(const Tensor& tensor) : item(tensor) {}

  std::variant<std::int64_t, Slice, Ellipsis, NewAxis, Tensor> item;
};

/// x[items], by NumPy's rules. Integers (negative ones count from the end), slices, `ellipsis` and `newaxis` give a
/// view (a copy if a step is negative). Tensors of integers are broadcast to each other; result[i, ...] = x[a[i], b[i],
/// ...]. A boolean mask counts as the tensors of the positions of its true elements. Their common dimensions stand
/// where the tensors (and integers) stood, or in front, if anything stands between them. Elements read twice add up in
/// the gradient. IndexError for a position outside its axis, ShapeError for too many items or tensors that don't fit.
Tensor index(const Operand& x, const std::vector<IndexItem>& items);

}  // namespace tapegrad
