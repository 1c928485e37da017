// Reductions over one, several or (with no axes) all axes. `keepdim` keeps each reduced axis with size 1.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// Integers and booleans are summed as int64.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// DtypeError for integers. The mean of nothing is NaN.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// Sums x over what was broadcast, down to `shape`; the inverse of expand. Its gradient is expand.
Tensor sum_to(const Tensor& x, const Shape& shape);

/// The largest along one axis; the gradient goes to the first of equal ones. NaN wins. ShapeError if there is no
/// element.
Tensor max(const Tensor& x, std::int64_t axis, bool keepdim = false);
Tensor min(const Tensor& x, std::int64_t axis, bool keepdim = false);
/// The largest of all; equal ones share the gradient equally.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
/// The largest over several axes; equal ones share the gradient equally.
Tensor amax(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// int64 index of the first largest along `axis`; without gradient.
Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdim = false);
Tensor argmin(const Tensor& x, std::int64_t axis, bool keepdim = false);

/// Variance; `correction` 1 divides by n - 1 (the default, as in PyTorch), 0 by n.
Tensor var(const Tensor& x, const Axes& axes = {}, int correction = 1, bool keepdim = false);
/// Euclidean norm over all elements; its gradient at 0 is 0.
Tensor norm(const Tensor& x);
/// log(sum(exp(x))) along `axis`, without overflow.
Tensor logsumexp(const Tensor& x, std::int64_t axis, bool keepdim = false);
/// Whether any or every element is nonzero; boolean, without gradient.
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

}  // namespace tapegrad
