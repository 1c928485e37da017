// Initialisers: they overwrite a tensor in place, from this thread's random generator, and return it.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::nn::init {

Tensor constant_(const Tensor& x, double value);
Tensor zeros_(const Tensor& x);
Tensor ones_(const Tensor& x);
/// Uniform in [low, high).
Tensor uniform_(const Tensor& x, double low = 0.0, double high = 1.0);
Tensor normal_(const Tensor& x, double mean = 0.0, double std = 1.0);

// For weights [out, in] (with further dimensions: [out, in, ...]); ShapeError below two dimensions.
/// Uniform in +-gain sqrt(6 / (in + out)) (Glorot and Bengio, 2010).
Tensor xavier_uniform_(const Tensor& x, double gain = 1.0);
/// Normal with std gain sqrt(2 / (in + out)).
Tensor xavier_normal_(const Tensor& x, double gain = 1.0);
/// Uniform in +-gain sqrt(3 / in) (He et al., 2015); sqrt(2) is the gain for ReLU.
Tensor kaiming_uniform_(const Tensor& x, double gain = 1.4142135623730951);
/// Normal with std gain / sqrt(in).
Tensor kaiming_normal_(const Tensor& x, double gain = 1.4142135623730951);

}  // namespace tapegrad::nn::init
