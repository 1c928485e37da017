// Dropout (Srivastava et al., 2014).
#pragma once
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

using tapegrad::dropout;

/// In training: elements are zeroed with probability p, the others multiplied by 1 / (1 - p). In eval: the identity.
class Dropout : public Module {
 public:
  /// ValueError unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5);

  Tensor forward(const Operand& x) const;
  Tensor operator()(const Operand& x) const { return forward(x); }
  double p() const { return p_; }

 private:
  double p_;
};

}  // namespace tapegrad::nn
