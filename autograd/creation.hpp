// Making tensors.
#pragma once
#include <optional>

#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad {

Tensor empty(const Shape& shape, Dtype dtype = float32);
Tensor zeros(const Shape& shape, Dtype dtype = float32);
Tensor ones(const Shape& shape, Dtype dtype = float32);
/// Every element is `value`. Without a dtype: float32, whatever kind of number `value` is.
Tensor full(const Shape& shape, const Scalar& value, Dtype dtype = float32);
/// The shape and dtype of `like`.
Tensor empty_like(const Operand& like);
Tensor zeros_like(const Operand& like);
Tensor ones_like(const Operand& like);
Tensor full_like(const Operand& like, const Scalar& value);
/// Ones on the main diagonal of a matrix, square or of `columns` columns.
Tensor eye(std::int64_t n, Dtype dtype = float32);
Tensor eye(std::int64_t rows, std::int64_t columns, Dtype dtype = float32);

/// start, start + step, ... below `stop` (above it, if step < 0); int64 if all three are integers, else float32.
Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step = 1, std::optional<Dtype> dtype = {});
/// 0, 1, ..., stop - 1.
Tensor arange(const Scalar& stop, std::optional<Dtype> dtype = {});
/// `count` evenly spaced numbers from `start` to `stop`, both included.
Tensor linspace(double start, double stop, std::int64_t count, Dtype dtype = float32);

/// Uniform in [0, 1), from this thread's generator (see core/random.hpp).
Tensor rand(const Shape& shape, Dtype dtype = float32);
/// Standard normal.
Tensor randn(const Shape& shape, Dtype dtype = float32);
Tensor rand_like(const Operand& like);
Tensor randn_like(const Operand& like);
/// Uniform int64 in [low, high).
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape);
/// A random permutation of 0 ... n - 1, int64.
Tensor randperm(std::int64_t n);

/// 1 with the probability that `p` gives for each element, else 0, in p's shape and floating dtype; without gradient.
/// ValueError unless 0 <= p <= 1.
Tensor bernoulli(const Tensor& p);
/// int64 indices [count], or [rows, count], drawn with probabilities in proportion to `weights` ([n], or [rows, n],
/// floating, finite, not negative, not all 0); an index of weight 0 never. Without replacement no index comes twice:
/// ValueError if fewer than `count` have a weight above 0.
Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement = false);
/// int64, indices.shape + [classes]: 1 at the class that `indices` (int64) names, else 0. IndexError outside
/// [0, classes).
Tensor one_hot(const Operand& indices, std::int64_t classes);

/// A tensor of these elements, converted to `dtype`.
Tensor from_values(const void* values, Dtype from, const Shape& shape, Dtype dtype);

/// A copy of `values` in row-major order. Without a dtype: float32 for floating numbers, int64 for integers, boolean.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, std::optional<Dtype> dtype = {});
extern template Tensor from_vector(const std::vector<float>&, const Shape&, std::optional<Dtype>);
extern template Tensor from_vector(const std::vector<double>&, const Shape&, std::optional<Dtype>);
extern template Tensor from_vector(const std::vector<std::int64_t>&, const Shape&, std::optional<Dtype>);
extern template Tensor from_vector(const std::vector<bool>&, const Shape&, std::optional<Dtype>);

/// What `tensor` keeps a literal of type T as.
template <class T>
using Stored =
    std::conditional_t<std::is_same_v<T, bool>, bool, std::conditional_t<std::is_integral_v<T>, std::int64_t, double>>;

/// tensor({1.0, 2.0}): rank 1. Floating literals make float32, integers int64, booleans boolean, unless `dtype` says
/// else.
template <class T>
Tensor tensor(std::initializer_list<T> values, std::optional<Dtype> dtype = {}) {
  return from_vector(std::vector<Stored<T>>(values.begin(), values.end()), {static_cast<std::int64_t>(values.size())},
                     dtype.value_or(default_dtype<T>()));
}
/// tensor({{1.0, 2.0}, {3.0, 4.0}}): rank 2; ShapeError if the rows differ in length.
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, std::optional<Dtype> dtype = {}) {
  std::vector<Stored<T>> values;
  const std::int64_t columns = rows.size() ? static_cast<std::int64_t>(rows.begin()->size()) : 0;
  for (const auto& row : rows) {
    if (static_cast<std::int64_t>(row.size()) != columns)
      throw ShapeError("tensor: every row must have the same length; got rows of " + std::to_string(columns) + " and " +
                       std::to_string(row.size()) + " elements");
    values.insert(values.end(), row.begin(), row.end());
  }
  return from_vector(values, {static_cast<std::int64_t>(rows.size()), columns}, dtype.value_or(default_dtype<T>()));
}
/// tensor(3.0): rank 0.
inline Tensor tensor(const Scalar& value, std::optional<Dtype> dtype = {}) {
  return full({}, value, dtype.value_or(value.kind()));
}

}  // namespace tapegrad
