// How operations take their tensors.
#pragma once
#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/autograd/user_line.hpp>

namespace tapegrad {

/// A tensor as a parameter, `const Operand& x`, of a function that records: it brings the line of the call, for anomaly
/// mode. What an argument makes borrows the tensor (no reference is counted), so it must not outlive the call; a copy,
/// as in a closure's [x], is a handle of its own.
class Operand : public Tensor {
 public:
  Operand(const Tensor& tensor, SourceLocation where = SourceLocation::current())
      : Tensor(core::Shared<autograd::TensorBody>::adopt(tensor.body())), is_borrowed_(true), line_(where) {}
  Operand(const Operand& other) : Tensor(other), is_borrowed_(false) {}
  Operand& operator=(const Operand&) = delete;
  ~Operand() {
    if (is_borrowed_) body_.give();
  }

 private:
  bool is_borrowed_;
  autograd::UserLine line_;
};

inline Tensor::Tensor(Operand&& operand) : Tensor(static_cast<const Tensor&>(operand)) {}
inline Tensor& Tensor::operator=(Operand&& operand) { return *this = static_cast<const Tensor&>(operand); }

}  // namespace tapegrad
