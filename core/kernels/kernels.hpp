// Kernels on arrays: values alone, no gradients. Private to the library. Arguments have been checked by the callers; a
// result is a new contiguous array. Every kernel takes any strides and has a flat path for contiguous operands.
#pragma once
#include <cstdint>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

/// op(a) @ op(b) over broadcast leading dimensions: a [..., m, k], b [..., k, n] of one floating dtype and any strides
/// (transposed operands are passed to BLAS as they are). `alpha` scales the product.
Array matmul(const Array& a, const Array& b, double alpha = 1.0);
/// out += a @ b, or out = a @ b; out is a matrix [m, n] with unit stride in its rows; two-dimensional operands.
void matmul_into(const Array& out, const Array& a, const Array& b, bool accumulate);

/// Every element `value`.
void fill(const Array& array, double value);
/// a += b, of one shape and dtype; a is contiguous.
void add_in_place(const Array& a, const Array& b);

}  // namespace tapegrad::core::kernels
