// Matrix products.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// NumPy's rules: vectors are promoted to matrices and the added dimension removed; leading dimensions broadcast.
/// d/da = g b^T, d/db = a^T g. Both must have the same floating dtype.
Tensor matmul(const Operand& a, const Operand& b);
/// result[i, j] = a[i] b[j], of two vectors.
Tensor outer(const Operand& a, const Operand& b);
/// The sum of a matrix's diagonal. d/dx = g on the diagonal, 0 elsewhere.
Tensor trace(const Operand& x);

}  // namespace tapegrad
