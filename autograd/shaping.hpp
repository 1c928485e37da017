// Operations that move elements without changing them. Views (marked) share memory with their input.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// A view where strides allow it, else a copy. One size may be -1: it is worked out.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Dimensions first ... last become one.
Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1);
/// View: two dimensions swapped.
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);
/// View: dimension i of the result is dimension axes[i] of x.
Tensor permute(const Tensor& x, const Shape& axes);
/// View: without dimension `axis` if its size is 1.
Tensor squeeze(const Tensor& x, std::int64_t axis);
/// View: a dimension of size 1 before `axis` of the result.
Tensor unsqueeze(const Tensor& x, std::int64_t axis);
/// View: dimensions of size 1 repeated up to `shape`, and new ones in front; -1 keeps a size.
Tensor expand(const Tensor& x, const Shape& shape);
/// View: elements start, start + step, ... below stop along `axis`, Python's rule for negative and large bounds; step >
/// 0.
Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1);
/// View: the elements at `index` of `axis`, which goes away. IndexError outside [-size, size).
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index);
/// Joined along an existing axis; dtypes are promoted.
Tensor cat(const Tensors& tensors, std::int64_t axis = 0);
/// Joined along a new axis.
Tensor stack(const Tensors& tensors, std::int64_t axis = 0);
/// Reversed along the axes.
Tensor flip(const Tensor& x, const Axes& axes);
/// On and below (above) the diagonal number `diagonal` of the last two dimensions; zero elsewhere.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
/// A copy with its own memory; differentiable.
Tensor clone(const Tensor& x);
/// Row-major memory: x itself, or a copy.
Tensor contiguous(const Tensor& x);
/// Another dtype; the gradient is converted back.
Tensor to(const Tensor& x, Dtype dtype);
/// `value` where `mask` is nonzero (mask broadcasts to x), x elsewhere.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value);
/// Rows `index` (int64, rank 1) along `axis`; repeated rows add up in the gradient.
Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index);
/// result[i, j] = x[i, index[i, j]] (along `axis`); index has x's shape but along `axis`.
Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index);

}  // namespace tapegrad
