// How operations take their tensors.
#pragma once
#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/autograd/user_line.hpp>

namespace tapegrad {

namespace autograd {
[[noreturn]] void fail_undefined(const char* operation);
/// Error in the name of the operation, unless there is a tensor.
inline void check_defined(const char* operation, const Tensor& x) {
  if (!x.defined()) fail_undefined(operation);
}
}  // namespace autograd

/// A tensor as a parameter, `const Operand& x`, of a function that records: it brings the line of the call, for anomaly
/// mode, and an undefined one is reported in the name of the function. What an argument makes borrows the tensor (no
/// reference is counted), so it must not outlive the call; a copy, as in a closure's [x], is a handle of its own.
class Operand : public Tensor {
 public:
  Operand(const Tensor& tensor, SourceLocation where = SourceLocation::current())
      : Tensor(core::Shared<autograd::TensorBody>::adopt(tensor.body())), borrowed_(tensor.body()), line_(where) {}
  Operand(const Operand& other) : Tensor(other) {}
  Operand& operator=(const Operand&) = delete;
  ~Operand() {
    if (borrowed_) give_back();
  }

  // A Tensor's, in the name of the function that asks.
  const Shape& shape(const char* operation = __builtin_FUNCTION()) const { return checked(operation).shape(); }
  std::int64_t size(std::int64_t axis, const char* operation = __builtin_FUNCTION()) const {
    return checked(operation).size(axis);
  }
  int rank(const char* operation = __builtin_FUNCTION()) const { return checked(operation).rank(); }
  std::int64_t numel(const char* operation = __builtin_FUNCTION()) const { return checked(operation).numel(); }
  Dtype dtype(const char* operation = __builtin_FUNCTION()) const { return checked(operation).dtype(); }
  const core::Array& array(const char* operation = __builtin_FUNCTION()) const { return checked(operation).array(); }

 private:
  const Tensor& checked(const char* operation) const {
    autograd::check_defined(operation, *this);
    return *this;
  }
  void give_back() {
    if (body_)
      body_.give();
    else
      count_moved();
  }
  /// What a function that takes Tensor&& has moved out of here was not counted.
  void count_moved() noexcept;

  autograd::TensorBody* borrowed_ = nullptr;
  autograd::UserLine line_;
};

inline Tensor::Tensor(Operand&& operand) : Tensor(static_cast<const Tensor&>(operand)) {}
inline Tensor& Tensor::operator=(Operand&& operand) & { return *this = static_cast<const Tensor&>(operand); }

}  // namespace tapegrad
