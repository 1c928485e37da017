// Initialisers: they overwrite a tensor in place, from this thread's random generator, and return it. ValueError for
// one that is expanded; GradError for the result of a recorded operation; DtypeError if uniform or normal numbers are
// to go into integers.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::nn::init {

Tensor constant_(const Operand& x, double value);
Tensor zeros_(const Operand& x);
Tensor ones_(const Operand& x);
/// The values of `source`, converted; ShapeError unless it broadcasts to x. The way to change a buffer, or weights, by
/// hand: to assign to a handle makes it another tensor, of which its module knows nothing.
Tensor copy_(const Operand& x, const Operand& source);
/// Uniform in [low, high). ValueError unless low <= high and both are finite.
Tensor uniform_(const Operand& x, double low = 0.0, double high = 1.0);
/// ValueError unless std >= 0 and both are finite.
Tensor normal_(const Operand& x, double mean = 0.0, double std = 1.0);
/// Normal, but drawn again until it is in [low, high]: bounds of values, not of deviations. ValueError unless std is
/// positive and at least 1 % of the numbers fall between the bounds.
Tensor trunc_normal_(const Operand& x, double mean = 0.0, double std = 1.0, double low = -2.0, double high = 2.0);

// For weights [out, in] (with further dimensions: [out, in, ...]); ShapeError below two dimensions, ValueError
// for a gain that is not finite or, but for orthogonal_, negative.
/// Uniform in +-gain sqrt(6 / (in + out)) (Glorot and Bengio, 2010).
Tensor xavier_uniform_(const Operand& x, double gain = 1.0);
/// Normal with std gain sqrt(2 / (in + out)).
Tensor xavier_normal_(const Operand& x, double gain = 1.0);
/// What He et al. (2015) divide by: `in` keeps the size of values, `out` that of gradients.
enum class Fan { in, out };
/// Uniform in +-gain sqrt(3 / fan); sqrt(2) is the gain for ReLU.
Tensor kaiming_uniform_(const Operand& x, double gain = 1.4142135623730951, Fan fan = Fan::in);
/// Normal with std gain / sqrt(fan).
Tensor kaiming_normal_(const Operand& x, double gain = 1.4142135623730951, Fan fan = Fan::in);
/// As a matrix [out, the rest]: gain times orthonormal rows, or columns if there are more rows, equally likely in all
/// directions (Saxe et al., 2014).
Tensor orthogonal_(const Operand& x, double gain = 1.0);

}  // namespace tapegrad::nn::init
