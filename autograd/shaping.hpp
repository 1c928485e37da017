// Operations that move elements without changing them. Views (marked) share memory with their input.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// A view where strides allow it, else a copy. One size may be -1: it is worked out.
Tensor reshape(const Operand& x, const Shape& shape);
/// Dimensions first ... last become one.
Tensor flatten(const Operand& x, std::int64_t first = 0, std::int64_t last = -1);
/// View: two dimensions swapped.
Tensor transpose(const Operand& x, std::int64_t a, std::int64_t b);
/// View: dimension i of the result is dimension axes[i] of x.
Tensor permute(const Operand& x, const Shape& axes);
/// View: without dimension `axis` if its size is 1.
Tensor squeeze(const Operand& x, std::int64_t axis);
/// View: without any dimension of size 1.
Tensor squeeze(const Operand& x);
/// View: a dimension of size 1 before `axis` of the result.
Tensor unsqueeze(const Operand& x, std::int64_t axis);
/// View: dimensions of size 1 repeated up to `shape`, and new ones in front; -1 keeps a size.
Tensor expand(const Operand& x, const Shape& shape);
/// expand, under NumPy's name.
Tensor broadcast_to(const Operand& x, const Shape& shape);
/// x in the shape of `like`, which has as many elements; a view where strides allow it.
Tensor view_as(const Operand& x, const Operand& like);
/// View: dimension from[i] of x becomes dimension to[i] of the result; the others keep their order.
Tensor movedim(const Operand& x, std::int64_t from, std::int64_t to);
Tensor movedim(const Operand& x, const Shape& from, const Shape& to);
/// View: the elements x[..., i, ..., i + offset, ...] of dimensions `axis1` and `axis2`, which go away; i runs along a
/// new last dimension. The gradient is put on the same diagonal of zeros.
Tensor diagonal(const Operand& x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);
/// View: elements start, start + step, ... below stop along `axis`, Python's rule for negative and large bounds; step >
/// 0.
Tensor slice(const Operand& x, std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1);
/// View: the elements at `index` of `axis`, which goes away. IndexError outside [-size, size).
Tensor select(const Operand& x, std::int64_t axis, std::int64_t index);
/// View: `count` elements from `start` on along `axis`; IndexError unless they are all there. A negative start counts
/// from the end.
Tensor narrow(const Operand& x, std::int64_t axis, std::int64_t start, std::int64_t count);
/// Views: pieces of `size` along `axis`; the last may be shorter. At least one piece, also of nothing.
Tensors split(const Operand& x, std::int64_t size, std::int64_t axis = 0);
/// Views: pieces of these sizes, which must add up to the whole axis.
Tensors split(const Operand& x, std::initializer_list<std::int64_t> sizes, std::int64_t axis = 0);
Tensors split(const Operand& x, const std::vector<std::int64_t>& sizes, std::int64_t axis = 0);
/// Views: at most `count` pieces, all of the rounded-up size but the last.
Tensors chunk(const Operand& x, std::int64_t count, std::int64_t axis = 0);
/// Views: every element along `axis`, which goes away.
Tensors unbind(const Operand& x, std::int64_t axis = 0);
/// Joined along an existing axis; dtypes are promoted.
Tensor cat(const Tensors& tensors, std::int64_t axis = 0, SourceLocation where = SourceLocation::current());
/// Joined along a new axis.
Tensor stack(const Tensors& tensors, std::int64_t axis = 0, SourceLocation where = SourceLocation::current());
/// Reversed along the axes.
Tensor flip(const Operand& x, const Axes& axes);
/// result[i] = x[i - shift] along `axis`, cyclically: what falls off the end comes back in front. Without an axis: over
/// all elements in row-major order.
Tensor roll(const Operand& x, std::int64_t shift);
Tensor roll(const Operand& x, std::int64_t shift, std::int64_t axis);
Tensor roll(const Operand& x, const Shape& shifts, const Shape& axes);
/// x side by side repeats[i] times along dimension i; more repeats than dimensions add dimensions in front. The
/// gradient is the sum over the copies.
Tensor repeat(const Operand& x, const Shape& repeats);
/// `value` around x: pads are {before, after} of the last axis, then of the one before it, and so on, as in PyTorch. A
/// negative pad takes elements away; ShapeError if there are fewer.
Tensor pad(const Operand& x, const std::vector<std::int64_t>& pads, const Scalar& value = 0);
/// On and below (above) the diagonal number `diagonal` of the last two dimensions; zero elsewhere.
Tensor tril(const Operand& x, std::int64_t diagonal = 0);
Tensor triu(const Operand& x, std::int64_t diagonal = 0);
/// A copy with its own memory; differentiable.
Tensor clone(const Operand& x);
/// Row-major memory: x itself, or a copy.
Tensor contiguous(const Operand& x);
/// Another dtype; the gradient is converted back.
Tensor to(const Operand& x, Dtype dtype);
/// `value` where `mask` is nonzero (mask broadcasts to x), x elsewhere.
Tensor masked_fill(const Operand& x, const Operand& mask, const Scalar& value);
/// Rows `index` (int64, rank 1) along `axis`; repeated rows add up in the gradient.
Tensor index_select(const Operand& x, std::int64_t axis, const Operand& index);
/// result[i, j] = x[i, index[i, j]] (along `axis` 1). The index (int64) has x's rank, and along the other axes x's size
/// or less. Elements read twice add up in the gradient.
Tensor gather(const Operand& x, std::int64_t axis, const Operand& index);
/// x, with source[i, j] added to the element [i, index[i, j]] (along `axis` 1); several may go to one element. The
/// index is as for gather; along each axis the source has its size or more. d/dsource = gather(g, axis, index).
Tensor scatter_add(const Operand& x, std::int64_t axis, const Operand& index, const Operand& source);
/// gather with x and the index broadcast to each other along all axes but `axis`.
Tensor take_along_dim(const Operand& x, const Operand& index, std::int64_t axis);
/// The positions of what is not zero, in row-major order: int64, [how many, rank of x]; without gradient.
Tensor nonzero(const Operand& x);
/// The elements of x where `mask` is nonzero, in row-major order, as a vector; the two broadcast.
Tensor masked_select(const Operand& x, const Operand& mask);

}  // namespace tapegrad
