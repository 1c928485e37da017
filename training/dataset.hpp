// Datasets: rows that can be asked for by number.
#pragma once
#include <concepts>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::data {

/// Numbers of rows.
using Rows = std::vector<std::int64_t>;

/// What a DataLoader takes: size() rows, and get(rows), which makes one batch of some of them. get() is called on the
/// loader's thread, one call at a time, without recording; its random numbers (rand, randint, ...) are the loader's.
template <class T>
concept Dataset = requires(T& dataset, const Rows& rows) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
  { dataset.get(rows) } -> std::convertible_to<Tensors>;
};

/// Tensors of the same first size: row i is row i of each. It shares their memory.
class TensorDataset {
 public:
  /// ShapeError if the first sizes differ, or a tensor has none; ValueError if there is no tensor.
  explicit TensorDataset(Tensors tensors);
  std::int64_t size() const { return tensors_[0].size(0); }
  /// The rows of each tensor, [rows.size(), ...].
  Tensors get(const Rows& rows) const;

 private:
  Tensors tensors_;
};

}  // namespace tapegrad::data
