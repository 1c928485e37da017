// Single arrays as NumPy's .npy files.
#pragma once
#include <string>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// Replaces the file at `path` as a whole, or leaves it as it was and throws FileError.
void save_npy(const std::string& path, const Tensor& tensor);
/// Little-endian arrays in C or Fortran order: float32, float64, int64 and boolean are read in their own dtype, float16
/// as float32, and integers that int64 holds as int64. FileError that names the file if it can't be read, holds
/// anything else, or is not exactly what its header says; a damaged or hostile file causes no allocation beyond eight
/// times its own size.
Tensor load_npy(const std::string& path);

}  // namespace tapegrad
