// Matrix products.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// NumPy's rules: vectors are promoted to matrices and the added dimension removed; leading dimensions broadcast.
/// d/da = g b^T, d/db = a^T g. Both must have the same floating dtype.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace tapegrad
