// A number of any arithmetic type, as an operand beside tensors.
#pragma once
#include <cstdint>
#include <type_traits>

#include <tapegrad/core/dtype.hpp>

namespace tapegrad {

/// Keeps whether it was written as a boolean, an integer or a floating number: an integer tensor times 2 stays integer,
/// times 2.5 it becomes float32; a floating tensor keeps its dtype beside any scalar.
class Scalar {
 public:
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value)
      : real_(static_cast<double>(value)),
        integer_(static_cast<std::int64_t>(value)),
        kind_(std::is_same_v<T, bool> ? boolean
              : std::is_integral_v<T> ? int64
                                      : float32) {}
  double real() const { return real_; }
  std::int64_t integer() const { return integer_; }
  /// boolean, int64, or float32 for any floating number.
  Dtype kind() const { return kind_; }
  /// The dtype of the result of an operation between a tensor of `dtype` and this.
  Dtype promoted_with(Dtype dtype) const { return promote(dtype, kind_); }

 private:
  double real_;
  std::int64_t integer_;
  Dtype kind_;
};

}  // namespace tapegrad
