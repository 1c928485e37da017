// Reductions over one, several or (with no axes) all axes. `keepdim` keeps each reduced axis with size 1.
#pragma once
#include <concepts>
#include <initializer_list>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// Integers and booleans are summed as int64.
Tensor sum(const Operand& x, const Axes& axes = {}, bool keepdim = false);
/// DtypeError for integers. The mean of nothing is NaN.
Tensor mean(const Operand& x, const Axes& axes = {}, bool keepdim = false);
/// The product, by pairs, so that its gradient is right where elements are 0 (the product of the others, to any
/// order). Integers and booleans multiply as int64; the product of nothing is 1.
Tensor prod(const Operand& x, const Axes& axes = {}, bool keepdim = false);
/// Element i along `axis` is the sum of the elements up to i; integers and booleans are summed as int64. The gradient
/// is the sum of g from i on.
Tensor cumsum(const Operand& x, std::int64_t axis);
/// Sums x over what was broadcast, down to `shape`; the inverse of expand. Its gradient is expand.
Tensor sum_to(const Operand& x, const Shape& shape);

/// The largest along one axis; the gradient goes to the first of equal ones. NaN wins. ShapeError if there is no
/// element.
Tensor max(const Operand& x, std::int64_t axis, bool keepdim = false);
Tensor min(const Operand& x, std::int64_t axis, bool keepdim = false);
/// The largest of all; equal ones share the gradient equally.
Tensor max(const Operand& x);
Tensor min(const Operand& x);
/// The largest over several axes; equal ones share the gradient equally.
Tensor amax(const Operand& x, const Axes& axes = {}, bool keepdim = false);
Tensor amin(const Operand& x, const Axes& axes = {}, bool keepdim = false);
/// int64 index of the first largest along `axis`; without gradient.
Tensor argmax(const Operand& x, std::int64_t axis, bool keepdim = false);
Tensor argmin(const Operand& x, std::int64_t axis, bool keepdim = false);
/// The same over all elements, as an index into the flattened tensor.
Tensor argmax(const Operand& x);
Tensor argmin(const Operand& x);

/// Variance; `correction` 1 divides by n - 1 (the default, as in PyTorch), 0 by n.
Tensor var(const Operand& x, const Axes& axes = {}, int correction = 1, bool keepdim = false);
/// Its root; the gradient is 0 where the deviation is 0.
Tensor std(const Operand& x, const Axes& axes = {}, int correction = 1, bool keepdim = false);
template <std::same_as<bool> B>
Tensor var(const Operand& x, const Axes& axes, B correction, bool keepdim = false) = delete;
template <std::same_as<bool> B>
Tensor std(const Operand& x, const Axes& axes, B correction, bool keepdim = false) = delete;
/// Euclidean norm over all elements; its gradient at 0 is 0.
Tensor norm(const Operand& x);
/// (sum |x|^p)^(1/p) for p > 0; the largest |x| for infinity, where equal ones share the gradient. The gradient is 0
/// where the norm is, and for elements that are 0. ValueError for other p.
Tensor norm(const Operand& x, double p, const Axes& axes = {}, bool keepdim = false);
Tensor norm(const Operand& x, std::initializer_list<std::int64_t> axes, bool keepdim = false) = delete;  // p is first
/// log(sum(exp(x))) over the axes, without overflow; its gradient is g softmax(x). -inf for
/// nothing, and for -inf alone, whose gradient is 0 (softmax itself is NaN there).
Tensor logsumexp(const Operand& x, const Axes& axes, bool keepdim = false);
/// Whether any or every element is nonzero; boolean, without gradient.
Tensor any(const Operand& x, const Axes& axes = {}, bool keepdim = false);
Tensor all(const Operand& x, const Axes& axes = {}, bool keepdim = false);

}  // namespace tapegrad
