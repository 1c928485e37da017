// Reading elements by tensors of indices; adding up at indices is the gradient, and the other way round.
#include <algorithm>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad {
namespace {

constexpr std::int64_t kGrain = std::int64_t{1} << 14;  // elements that one task moves

/// A row-major array as [outer, size, inner] around one axis.
struct Layout {
  std::int64_t outer, size, inner;
  Layout(const Shape& shape, int axis)
      : outer(shape.sub(0, axis).numel()), size(shape[axis]), inner(shape.sub(axis + 1, shape.rank()).numel()) {}
};

bool is_outside(std::int64_t value, std::int64_t size) {  // negative numbers become large ones
  return static_cast<std::uint64_t>(value) >= static_cast<std::uint64_t>(size);
}

/// For the first of the indices that is outside [0, size).
[[noreturn]] void fail_outside(const char* operation, const Array& indices, std::int64_t size) {
  const std::int64_t* at = indices.data<std::int64_t>();
  while (!is_outside(*at, size)) ++at;
  throw IndexError(std::string(operation) + ": indices must be in [0, " + std::to_string(size) + "); got " +
                   std::to_string(*at) + " at element " + std::to_string(at - indices.data<std::int64_t>()) +
                   " of the index, whose shape is " + indices.shape().to_string());
}

/// The indices in row-major order.
Array indices_of(const char* operation, const Tensor& index) {
  autograd::check_defined(operation, index);
  if (index.dtype() != int64)
    throw DtypeError(std::string(operation) + ": the index must be int64; got " + std::string(name_of(index.dtype())) +
                     "; convert it first with .to(tapegrad::int64)");
  return index.array().contiguous();
}
/// The same, each in [0, size).
Array checked_indices(const char* operation, const Tensor& index, std::int64_t size) {
  const Array indices = indices_of(operation, index);
  const std::int64_t* first = indices.data<std::int64_t>();
  if (std::any_of(first, first + indices.numel(), [size](std::int64_t value) { return is_outside(value, size); }))
    fail_outside(operation, indices, size);
  return indices;
}

/// Calls f(outer, first column, last column) in parallel; each column of `inner` belongs to one call.
template <class F>
void for_columns(const Layout& layout, F&& f) {
  const std::int64_t rows = std::max<std::int64_t>(layout.size, 1);
  const std::int64_t width = std::clamp<std::int64_t>(kGrain / rows, 64, kGrain);
  const std::int64_t pieces = (layout.inner + width - 1) / width;
  const std::int64_t work = std::max<std::int64_t>(1, rows * std::min(width, layout.inner));
  core::parallel_ranges(layout.outer * pieces, std::max<std::int64_t>(1, kGrain / work),
                        [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t i = begin; i < end; ++i) {
                            const std::int64_t outer = i / pieces, first = (i - outer * pieces) * width;
                            f(outer, first, std::min(layout.inner, first + width));
                          }
                        });
}

Shape with_size(Shape shape, int axis, std::int64_t size) {
  shape[axis] = size;
  return shape;
}

/// Calls f(element, place) for each element of an index that has this layout, where place is the element of [outer,
/// size, inner] that the index points to. Each index is checked on the way; the first one outside is told of.
template <class F>
void for_places(const char* operation, const Array& indices, const Layout& layout, std::int64_t size, F f) {
  const std::int64_t* all = indices.data<std::int64_t>();
  for_columns(layout, [=, &indices](std::int64_t outer, std::int64_t first, std::int64_t last) {
    const std::int64_t inner = layout.inner, start = outer * size * inner;
    const auto at = [=, &indices](std::int64_t element) {
      if (is_outside(all[element], size)) fail_outside(operation, indices, size);
      return all[element];
    };
    std::int64_t element = outer * layout.size * inner;
    if (inner == 1) {  // no loop for a single column
      for (std::int64_t j = 0; j < layout.size; ++j, ++element) f(element, start + at(element));
      return;
    }
    for (std::int64_t j = 0; j < layout.size; ++j, element += inner)
      for (std::int64_t i = first; i < last; ++i) f(element + i, start + at(element + i) * inner + i);
  });
}

/// Zeros of x's shape, but `size` along `axis`, after add(x's elements, the zeros).
template <class Add>
Array added_up(const char* operation, const Tensor& x, int axis, std::int64_t size, Add add) {
  const Array from = x.array().contiguous(), sums = zeros(with_size(x.shape(), axis, size), x.dtype()).array();
  core::dispatch(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, bool>)
      throw DtypeError(std::string(operation) +
                       ": booleans can't be added up; convert them first with .to(tapegrad::int64)");
    else
      add(static_cast<const T*>(from.data<T>()), sums.data<T>());
  });
  return sums;
}

/// Row j of x is added to row index[j].
Tensor index_add(const Tensor& x, int axis, const Tensor& index, std::int64_t size) {
  const auto value = [&] {
    const Array indices = checked_indices("index_add", index, size);
    const Layout in(x.shape(), axis);
    const auto add = [&, at = indices.data<std::int64_t>()](const auto* from, auto* sums) {
      for_columns(in, [&](std::int64_t outer, std::int64_t first, std::int64_t last) {
        for (std::int64_t j = 0; j < in.size; ++j) {
          const auto* row = from + (outer * in.size + j) * in.inner;
          auto* __restrict sum = sums + (outer * size + at[j]) * in.inner;
          for (std::int64_t i = first; i < last; ++i) sum[i] += row[i];
        }
      });
    };
    return added_up("index_add", x, axis, size, add);
  };
  return record("index_add", value, {x, index}, [axis, index](const Tensor& g) {
    return Tensors{index_select(g, axis, index), Tensor()};
  });
}

/// Each element of x is added at its own index.
Tensor scatter_sum(const Tensor& x, int axis, const Tensor& index, std::int64_t size) {
  const auto value = [&] {
    const Array indices = indices_of("scatter_add", index);
    const auto add = [&](const auto* from, auto* sums) {
      for_places("scatter_add", indices, Layout(x.shape(), axis), size,
                 [=](std::int64_t element, std::int64_t place) { sums[place] += from[element]; });
    };
    return added_up("scatter_add", x, axis, size, add);
  };
  return record("scatter_add", value, {x, index}, [axis, index](const Tensor& g) {
    return Tensors{gather(g, axis, index), Tensor()};
  });
}

/// The part of x, from its start, that has `shape`, whatever that is along `free` (-1: along every axis).
Tensor corner(const char* operation, Tensor x, const Shape& shape, int free = -1) {
  autograd::check_defined(operation, x);
  const Shape whole = x.shape();
  bool fits = whole.rank() == shape.rank();
  for (int i = 0; fits && i < shape.rank(); ++i) fits = i == free || shape[i] <= whole[i];
  if (!fits)
    throw ShapeError(std::string(operation) + ": the index must have the tensor's rank, and no larger size" +
                     (free < 0 ? "" : " but along axis " + std::to_string(free)) + "; got index " + shape.to_string() +
                     " and tensor " + whole.to_string());
  for (int i = 0; i < shape.rank(); ++i)
    if (i != free && shape[i] < whole[i]) x = narrow(x, i, 0, shape[i]);
  return x;
}

}  // namespace

Tensor index_select(const Operand& x, std::int64_t axis, const Operand& index) {
  if (index.rank() > 1 || (x.rank() == 0 && index.numel() != 1))
    throw ShapeError(
        "index_select: the index must be a vector or a number (one number, if the tensor is one); got shape " +
        index.shape().to_string());
  if (x.rank() == 0) return autograd::as_vector(x, [&](const Tensor& v) { return index_select(v, axis, index); });
  const int along = normalize_axis("index_select", axis, x.rank());
  const std::int64_t size = x.shape()[along];
  const autograd::Span span("index_select");
  const Array from = x.array().contiguous(), indices = checked_indices("index_select", index, size);
  Array result(with_size(x.shape(), along, index.numel()), x.dtype());
  const Layout out(result.shape(), along);
  core::dispatch(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t *at = indices.data<std::int64_t>(), inner = out.inner;
    const T* in = from.data<T>();
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(inner, 1));
    core::parallel_ranges(out.outer * out.size, grain, [&](std::int64_t begin, std::int64_t end) {
      T* to = result.data<T>() + begin * inner;
      std::int64_t outer = begin / out.size, j = begin % out.size;
      for (std::int64_t row = begin; row < end; ++row, to += inner) {
        const T* picked = in + (outer * size + at[j]) * inner;
        if (inner == 1)
          *to = *picked;
        else
          std::copy_n(picked, inner, to);
        if (++j == out.size) ++outer, j = 0;
      }
    });
  });
  return record("index_select", std::move(result), {x, index}, [along, index, size](const Tensor& g) {
    return Tensors{index_add(g, along, index, size), Tensor()};
  });
}

Tensor gather(const Operand& tensor, std::int64_t axis, const Operand& index) {
  if (tensor.rank() == 0 && index.rank() == 0)
    return autograd::as_vector(tensor, [&](const Tensor& v) { return gather(v, axis, reshape(index, {1})); });
  const int along = normalize_axis("gather", axis, tensor.rank());
  const Tensor x = corner("gather", tensor, index.shape(), along);
  const std::int64_t size = x.shape()[along];
  const autograd::Span span("gather");
  const Array from = x.array().contiguous(), indices = indices_of("gather", index);
  Array result(index.shape(), x.dtype());
  core::dispatch(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto copy = [in = from.data<T>(), out = result.data<T>()](std::int64_t element, std::int64_t place) {
      out[element] = in[place];
    };
    for_places("gather", indices, Layout(result.shape(), along), size, copy);
  });
  return record("gather", std::move(result), {x, index}, [along, index, size](const Tensor& g) {
    return Tensors{scatter_sum(g, along, index, size), Tensor()};
  });
}

Tensor scatter_add(const Operand& x, std::int64_t axis, const Operand& index, const Operand& source) {
  if (x.rank() == 0 && index.rank() == 0 && source.rank() == 0)
    return autograd::as_vector(
        x, [&](const Tensor& v) { return scatter_add(v, axis, reshape(index, {1}), reshape(source, {1})); });
  const int along = normalize_axis("scatter_add", axis, x.rank());
  const Shape& shape = index.shape();
  corner("scatter_add", x, shape, along);
  Tensor sums = scatter_sum(corner("scatter_add", source, shape), along, index, x.shape()[along]);
  std::vector<std::int64_t> missing;
  for (int i = x.rank() - 1; i >= 0; --i) missing.insert(missing.end(), {0, i == along ? 0 : x.shape()[i] - shape[i]});
  return x + pad(sums, missing);
}

Tensor take_along_dim(const Operand& x, const Operand& index, std::int64_t axis) {
  const int along = normalize_axis("take_along_dim", axis, x.rank());
  if (index.rank() != x.rank())
    throw ShapeError("take_along_dim: the index must have the tensor's rank; got index " + index.shape().to_string() +
                     " and tensor " + x.shape().to_string());
  const Shape shape =
      broadcast_shapes("take_along_dim", with_size(x.shape(), along, 1), with_size(index.shape(), along, 1));
  return gather(expand(x, with_size(shape, along, x.shape()[along])), along,
                expand(index, with_size(shape, along, index.shape()[along])));
}

Tensor one_hot(const Operand& indices, std::int64_t classes) {
  if (classes < 0)
    throw ValueError("one_hot: the number of classes must not be negative; got " + std::to_string(classes));
  const autograd::Span span("one_hot");
  const Array at = checked_indices("one_hot", indices, classes);
  Shape shape = indices.shape();
  shape.push_back(classes);
  const Tensor result = zeros(shape, int64);
  std::int64_t* row = result.array().data<std::int64_t>();
  const std::int64_t* index = at.data<std::int64_t>();
  for (std::int64_t left = at.numel(); left > 0; --left, row += classes) row[*index++] = 1;
  return result;
}

Tensor nonzero(const Operand& x) {
  const Array flags = x.array().converted(boolean).contiguous();
  const bool* flag = flags.data<bool>();
  const int rank = x.rank();
  Array result({std::count(flag, flag + flags.numel(), true), rank}, int64);
  std::int64_t* out = result.data<std::int64_t>();
  for (std::int64_t i = 0; i < flags.numel(); ++i) {
    if (!flag[i]) continue;
    std::int64_t left = i;
    for (int axis = rank - 1; axis >= 0; --axis) {
      out[axis] = left % x.shape()[axis];
      left /= x.shape()[axis];
    }
    out += rank;
  }
  return Tensor(result);
}

Tensor masked_select(const Operand& x, const Operand& mask) {
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  const Tensor places = nonzero(reshape(expand(mask.detach(), shape), {-1}));
  return index_select(reshape(expand(x, shape), {-1}), 0, squeeze(places, 1));
}

}  // namespace tapegrad
