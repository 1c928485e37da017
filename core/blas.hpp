// Which BLAS library does the matrix products.
#pragma once
#include <string>

namespace tapegrad {

/// For example "OpenBLAS 0.3.21 Haswell", or "BLAS of unknown make": then products may be slow.
std::string blas_description();

}  // namespace tapegrad
