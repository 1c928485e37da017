#include <tapegrad/nn/init.hpp>

#include <algorithm>
#include <cmath>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>

namespace tapegrad::nn::init {
namespace {

Tensor overwrite(const Tensor& x, const Tensor& value) {
  NoGradGuard no_grad;
  core::copy_into(x.mutable_array(), value.array());
  return x;
}

/// What goes into an element of the output, and out of one of the input.
std::pair<double, double> fans(const char* operation, const Tensor& x) {
  if (x.rank() < 2)
    throw ShapeError(std::string(operation) + ": a weight must have at least two dimensions, [out, in]; got " +
                     x.shape().to_string());
  const auto receptive = static_cast<double>(x.shape().sub(2, x.rank()).numel());
  return {static_cast<double>(x.size(1)) * receptive, static_cast<double>(x.size(0)) * receptive};
}

/// sqrt(numerator / fan), and 0 for a weight without elements.
double root(double numerator, double fan) { return std::sqrt(numerator / std::max(fan, 1.0)); }

}  // namespace

Tensor constant_(const Tensor& x, double value) { return overwrite(x, full({}, value, x.dtype())); }
Tensor zeros_(const Tensor& x) { return constant_(x, 0.0); }
Tensor ones_(const Tensor& x) { return constant_(x, 1.0); }

Tensor uniform_(const Tensor& x, double low, double high) {
  return overwrite(x, rand(x.shape(), x.dtype()) * (high - low) + low);
}
Tensor normal_(const Tensor& x, double mean, double std) {
  return overwrite(x, randn(x.shape(), x.dtype()) * std + mean);
}

Tensor xavier_uniform_(const Tensor& x, double gain) {
  const auto [in, out] = fans("xavier_uniform_", x);
  const double bound = gain * root(6.0, in + out);
  return uniform_(x, -bound, bound);
}
Tensor xavier_normal_(const Tensor& x, double gain) {
  const auto [in, out] = fans("xavier_normal_", x);
  return normal_(x, 0.0, gain * root(2.0, in + out));
}
Tensor kaiming_uniform_(const Tensor& x, double gain) {
  const double bound = gain * root(3.0, fans("kaiming_uniform_", x).first);
  return uniform_(x, -bound, bound);
}
Tensor kaiming_normal_(const Tensor& x, double gain) {
  return normal_(x, 0.0, gain * root(1.0, fans("kaiming_normal_", x).first));
}

}  // namespace tapegrad::nn::init
