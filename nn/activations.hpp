// Activation functions, and modules of them for Sequential.
#pragma once
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

using tapegrad::gelu;
using tapegrad::GeluApproximation;
using tapegrad::log_softmax;
using tapegrad::relu;
using tapegrad::sigmoid;
using tapegrad::silu;
using tapegrad::softmax;
using tapegrad::softplus;
using tapegrad::tanh;

class GELU : public Module {
 public:
  explicit GELU(GeluApproximation approximate = GeluApproximation::none) : Module("GELU"), approximate_(approximate) {
    if (approximate == GeluApproximation::tanh) describe("approximate=tanh");
  }
  Tensor operator()(const Operand& x) const { return gelu(x, approximate_); }

 private:
  GeluApproximation approximate_;
};

class ReLU : public Module {
 public:
  ReLU() : Module("ReLU") {}
  Tensor operator()(const Operand& x) const { return relu(x); }
};

class SiLU : public Module {
 public:
  SiLU() : Module("SiLU") {}
  Tensor operator()(const Operand& x) const { return silu(x); }
};

class Tanh : public Module {
 public:
  Tanh() : Module("Tanh") {}
  Tensor operator()(const Operand& x) const { return tapegrad::tanh(x); }
};

class Sigmoid : public Module {
 public:
  Sigmoid() : Module("Sigmoid") {}
  Tensor operator()(const Operand& x) const { return sigmoid(x); }
};

}  // namespace tapegrad::nn
