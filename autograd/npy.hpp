// Single arrays as NumPy's .npy files.
#pragma once
#include <string>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// Replaces the file at `path` as a whole, or leaves it as it was and throws FileError.
void save_npy(const std::string& path, const Tensor& tensor);
/// Little-endian float32, float64, int64 and boolean arrays, in C or Fortran order, are read in their own dtype.
/// FileError that names the file if it can't be read, holds anything else, or is not exactly what its header says; a
/// damaged or hostile file causes no allocation beyond its own size.
Tensor load_npy(const std::string& path);

}  // namespace tapegrad
