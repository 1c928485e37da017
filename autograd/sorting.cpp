#include <algorithm>
#include <numeric>
#include <vector>

#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/sorting.hpp>
#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad {
namespace {

constexpr std::int64_t kGrain = std::int64_t{1} << 12;  // elements that one task orders

/// Whether element i of a row goes before element j. No two are equal, so any way of sorting is stable.
template <class T>
struct Before {
  const T* row;
  bool descending;

  bool operator()(std::int64_t i, std::int64_t j) const {
    const T a = row[descending ? j : i], b = row[descending ? i : j];
    if (a < b || (b != b && a == a)) return true;
    if (b < a || (a != a && b == b)) return false;
    return i < j;
  }
};

/// Writes the first k indices of a row in that order.
template <class T>
void order_row(const Before<T>& before, std::int64_t size, std::int64_t k, std::int64_t* to) {
  if (k == size) {
    std::iota(to, to + size, 0);
    return std::sort(to, to + size, before);
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort_copy(order.begin(), order.end(), to, to + k, before);
}

/// The indices of the first k along an axis.
Tensor first_indices(const Tensor& x, int axis, std::int64_t k, bool descending, bool sorted) {
  Shape order, back, shape = x.shape();
  shape.erase(axis);
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) order.push_back(i);
    back.push_back(i == axis ? x.rank() - 1 : i - (i > axis));
  }
  order.push_back(axis);
  const std::int64_t size = x.shape()[axis], rows = shape.numel();
  shape.push_back(k);
  const Array from = x.array().permuted(order).contiguous(), indices(shape, int64);
  core::dispatch(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(size, 1));
    core::parallel_ranges(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::int64_t* to = indices.data<std::int64_t>() + row * k;
        order_row(Before<T>{from.data<T>() + row * size, descending}, size, k, to);
        if (!sorted) std::sort(to, to + k);
      }
    });
  });
  return Tensor(indices.permuted(back).contiguous());
}

}  // namespace

Tensor argsort(const Operand& x, std::int64_t axis, bool descending) {
  const autograd::Span span("argsort");
  if (x.rank() == 0)
    return autograd::as_vector(x.detach(), [&](const Tensor& v) { return argsort(v, axis, descending); });
  const int along = normalize_axis("argsort", axis, x.rank());
  return first_indices(x, along, x.shape()[along], descending, true);
}

Sorted sort(const Operand& x, std::int64_t axis, bool descending) {
  const autograd::Span span("sort");
  const int along = normalize_axis("sort", axis, std::max(x.rank(), 1));
  return topk(x, x.rank() == 0 ? 1 : x.shape()[along], along, descending);
}

Sorted topk(const Operand& x, std::int64_t k, std::int64_t axis, bool largest, bool sorted) {
  const autograd::Span span("topk");
  if (x.rank() == 0) {
    const Sorted one = topk(reshape(x, {1}), k, axis, largest, sorted);
    return k == 0 ? one : Sorted{reshape(one.values, {}), reshape(one.indices, {})};
  }
  const int along = normalize_axis("topk", axis, x.rank());
  if (k < 0 || k > x.shape()[along])
    throw ValueError("topk: k must be in [0, size of the axis]; got " + std::to_string(k) + " for axis " +
                     std::to_string(along) + " of shape " + x.shape().to_string());
  const Tensor indices = first_indices(x, along, k, largest, sorted);
  return {gather(x, along, indices), indices};
}

}  // namespace tapegrad
