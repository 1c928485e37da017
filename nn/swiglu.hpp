// The gated feed-forward layer of Llama and its kin (Shazeer, 2020).
#pragma once
#include <tapegrad/nn/linear.hpp>

namespace tapegrad::nn {

/// down_proj(silu(gate_proj(x)) * up_proj(x)), through `hidden` features; down_proj gives as many as x has. With three
/// matrices instead of two, a hidden layer of 8/3 widths has as many parameters as one of 4 widths without gates.
class SwiGLU : public Module {
 public:
  SwiGLU(std::int64_t features, std::int64_t hidden, const LinearOptions& options = {});

  /// x [..., features] -> the same shape.
  Tensor forward(const Operand& x) const;
  Tensor operator()(const Operand& x) const { return forward(x); }

  const Linear& gate_proj() const { return gate_proj_; }
  const Linear& up_proj() const { return up_proj_; }
  const Linear& down_proj() const { return down_proj_; }

 private:
  Linear gate_proj_, up_proj_, down_proj_;
};

}  // namespace tapegrad::nn
