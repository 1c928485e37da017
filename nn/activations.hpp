// Activation functions, and modules of them for Sequential.
#pragma once
#include <functional>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

using tapegrad::elu;
using tapegrad::gelu;
using tapegrad::GeluApproximation;
using tapegrad::leaky_relu;
using tapegrad::log_softmax;
using tapegrad::relu;
using tapegrad::sigmoid;
using tapegrad::silu;
using tapegrad::softmax;
using tapegrad::softplus;
using tapegrad::tanh;

/// A function of one tensor as a module: Function("Square", [](const Tensor& x) { return square(x); }).
class Function : public Module {
 public:
  Function(std::string type, std::function<Tensor(const Tensor&)> function, std::string arguments = "")
      : Module(std::move(type)), function_(std::move(function)) {
    describe(std::move(arguments));
  }

  Tensor forward(const Operand& x) const {
    const auto here = scope();
    return finished(function_(x));
  }
  Tensor operator()(const Operand& x) const { return forward(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

struct ReLU : Function {
  ReLU();
};
struct LeakyReLU : Function {
  explicit LeakyReLU(double negative_slope = 0.01);
};
struct ELU : Function {
  explicit ELU(double alpha = 1.0);
};
struct GELU : Function {
  explicit GELU(GeluApproximation approximate = GeluApproximation::none);
};
struct SiLU : Function {
  SiLU();
};
struct Tanh : Function {
  Tanh();
};
struct Sigmoid : Function {
  Sigmoid();
};
struct Softplus : Function {
  explicit Softplus(double beta = 1.0, double threshold = 20.0);
};
struct Softmax : Function {
  explicit Softmax(std::int64_t axis);
};
struct LogSoftmax : Function {
  explicit LogSoftmax(std::int64_t axis);
};

}  // namespace tapegrad::nn
