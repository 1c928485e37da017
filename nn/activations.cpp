#include <tapegrad/nn/activations.hpp>

#include <fmt/format.h>

namespace tapegrad::nn {

ReLU::ReLU() : Function("ReLU", [](const Tensor& x) { return relu(x); }) {}
LeakyReLU::LeakyReLU(double negative_slope)
    : Function(
          "LeakyReLU", [=](const Tensor& x) { return leaky_relu(x, negative_slope); },
          fmt::format("negative_slope={}", negative_slope)) {}
ELU::ELU(double alpha)
    : Function(
          "ELU", [=](const Tensor& x) { return elu(x, alpha); }, fmt::format("alpha={}", alpha)) {}
GELU::GELU(GeluApproximation approximate)
    : Function(
          "GELU", [=](const Tensor& x) { return gelu(x, approximate); },
          approximate == GeluApproximation::tanh ? "approximate=tanh" : "") {}
SiLU::SiLU() : Function("SiLU", [](const Tensor& x) { return silu(x); }) {}
Tanh::Tanh() : Function("Tanh", [](const Tensor& x) { return tapegrad::tanh(x); }) {}
Sigmoid::Sigmoid() : Function("Sigmoid", [](const Tensor& x) { return sigmoid(x); }) {}
Softplus::Softplus(double beta, double threshold)
    : Function(
          "Softplus", [=](const Tensor& x) { return softplus(x, beta, threshold); },
          fmt::format("beta={}, threshold={}", beta, threshold)) {}
Softmax::Softmax(std::int64_t axis)
    : Function(
          "Softmax", [=](const Tensor& x) { return softmax(x, axis); }, fmt::format("axis={}", axis)) {}
LogSoftmax::LogSoftmax(std::int64_t axis)
    : Function(
          "LogSoftmax", [=](const Tensor& x) { return log_softmax(x, axis); }, fmt::format("axis={}", axis)) {}

}  // namespace tapegrad::nn
