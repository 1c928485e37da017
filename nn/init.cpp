#include <tapegrad/nn/init.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::nn::init {
namespace {

Tensor overwrite(const Tensor& x, const Tensor& value) {
  for (int axis = 0; axis < x.rank(); ++axis)
    require(x.size(axis) <= 1 || x.array().strides()[axis] != 0,
            "init: what is written to must not be expanded; got one of shape {}; clone() it first", x.shape());
  NoGradGuard no_grad;
  core::copy_into(x.mutable_array(), value.array());
  return x;
}

/// What goes into an element of the output, and out of one of the input.
std::pair<double, double> fans(const char* operation, const Operand& x) {
  autograd::check_floating(operation, x);
  if (x.rank() < 2)
    throw ShapeError(std::string(operation) + ": a weight must have at least two dimensions, [out, in]; got " +
                     x.shape().to_string());
  const auto receptive = static_cast<double>(x.shape().sub(2, x.rank()).numel());
  return {static_cast<double>(x.size(1)) * receptive, static_cast<double>(x.size(0)) * receptive};
}

/// sqrt(numerator / fan), and 0 for a weight without elements.
double root(double numerator, double fan) { return std::sqrt(numerator / std::max(fan, 1.0)); }

/// The share of the normal distribution below x.
double normal_share(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// [count, width] in float64, count <= width: normal rows, each without its parts along those before (Gram and Schmidt,
/// twice, so that rounding leaves nothing).
Tensor orthonormal_rows(std::int64_t count, std::int64_t width) {
  std::vector<double> values = randn({count, width}, float64).to_vector<double>();
  for (std::int64_t i = 0; i < count; ++i) {
    double* row = values.data() + i * width;
    for (std::int64_t j = 0; j < 2 * i; ++j) {
      const double* other = values.data() + j % i * width;
      const double along = std::inner_product(row, row + width, other, 0.0);
      for (std::int64_t k = 0; k < width; ++k) row[k] -= along * other[k];
    }
    const double length = std::sqrt(std::inner_product(row, row + width, row, 0.0));
    for (std::int64_t k = 0; k < width; ++k) row[k] /= length;
  }
  return from_vector(values, {count, width}, float64);
}

}  // namespace

Tensor constant_(const Operand& x, double value) { return overwrite(x, full({}, value, x.dtype())); }
Tensor zeros_(const Operand& x) { return constant_(x, 0.0); }
Tensor ones_(const Operand& x) { return constant_(x, 1.0); }

Tensor copy_(const Operand& x, const Operand& source) {
  require<ShapeError>(is_broadcastable_to(source.shape(), x.shape()), "copy_: the source must broadcast to {}; got {}",
                      x.shape(), source.shape());
  const bool overlaps = x.array().storage()->birth() == source.array().storage()->birth();
  return overwrite(x, overlaps ? Tensor(source.array().copy()) : Tensor(source));
}

Tensor uniform_(const Operand& x, double low, double high) {
  require(low <= high && std::isfinite(high - low),
          "uniform_: low must be at most high, and both finite; got {} and {}", low, high);
  return overwrite(x, rand(x.shape(), x.dtype()) * (high - low) + low);
}
Tensor normal_(const Operand& x, double mean, double std) {
  require(std >= 0 && std::isfinite(mean + std),
          "normal_: mean and std must be finite, and std not negative; got {} and {}", mean, std);
  return overwrite(x, randn(x.shape(), x.dtype()) * std + mean);
}

Tensor trunc_normal_(const Operand& x, double mean, double std, double low, double high) {
  autograd::check_floating("trunc_normal_", x);
  const double from = (low - mean) / std, to = (high - mean) / std;
  require(std > 0 && normal_share(to) - normal_share(from) >= 0.01,
          "trunc_normal_: std must be positive, and 1 % of the numbers between low and high; got mean {}, std {}, low "
          "{}, high {}",
          mean, std, low, high);
  std::vector<double> kept;
  const auto count = static_cast<std::size_t>(x.numel());
  while (kept.size() < count)
    for (const double z : randn({static_cast<std::int64_t>(count - kept.size())}, float64).to_vector<double>())
      if (z >= from && z <= to) kept.push_back(z);
  return overwrite(x, clamp(from_vector(kept, x.shape(), float64) * std + mean, low, high));
}

Tensor xavier_uniform_(const Operand& x, double gain) {
  const auto [in, out] = fans("xavier_uniform_", x);
  const double bound = gain * root(6.0, in + out);
  return uniform_(x, -bound, bound);
}
Tensor xavier_normal_(const Operand& x, double gain) {
  const auto [in, out] = fans("xavier_normal_", x);
  return normal_(x, 0.0, gain * root(2.0, in + out));
}
Tensor kaiming_uniform_(const Operand& x, double gain, Fan fan) {
  const auto [in, out] = fans("kaiming_uniform_", x);
  const double bound = gain * root(3.0, fan == Fan::in ? in : out);
  return uniform_(x, -bound, bound);
}
Tensor kaiming_normal_(const Operand& x, double gain, Fan fan) {
  const auto [in, out] = fans("kaiming_normal_", x);
  return normal_(x, 0.0, gain * root(1.0, fan == Fan::in ? in : out));
}
Tensor orthogonal_(const Operand& x, double gain) {
  fans("orthogonal_", x);
  require(std::isfinite(gain), "orthogonal_: gain must be finite; got {}", gain);
  const std::int64_t out = x.size(0), rest = x.shape().sub(1, x.rank()).numel();
  const Tensor basis = orthonormal_rows(std::min(out, rest), std::max(out, rest));
  return overwrite(x, (gain * (out <= rest ? basis : basis.transpose(0, 1))).reshape(x.shape()));
}

}  // namespace tapegrad::nn::init
