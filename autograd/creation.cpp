#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad {
namespace {

const Shape& checked(const char* operation, const Shape& shape) {
  for (std::int64_t size : shape)
    if (size < 0)
      throw ShapeError(std::string(operation) + ": sizes must not be negative; got shape " + shape.to_string());
  return shape;
}

/// How many of start, start + step, ... are before stop. Unsigned numbers hold every distance between two integers.
std::uint64_t steps_between(std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const std::uint64_t from = start, to = stop, by = step;
  return step > 0 ? (to - from - 1) / by + 1 : (from - to - 1) / (0 - by) + 1;
}

Tensor random(const char* operation, const Shape& shape, Dtype dtype, Array (*draw)(const Shape&, Dtype)) {
  if (!is_floating(dtype))
    throw DtypeError(std::string(operation) + ": expected dtype float32 or float64; got " +
                     std::string(name_of(dtype)) + "; use randint for integers");
  const autograd::Span span(operation);
  return Tensor(draw(checked(operation, shape), dtype));
}

/// One element of the scalar's own kind: an integer keeps all its digits.
Array array_of(const Scalar& value) {
  Array array({}, value.kind() == float32 ? float64 : value.kind());
  core::dispatch(array.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    *array.data<T>() = autograd::number(value).as<T>();
  });
  return array;
}

Tensor filled(const char* operation, const Shape& shape, const Scalar& value, Dtype dtype) {
  Array array(checked(operation, shape), dtype);
  core::copy_into(array, array_of(value));
  return Tensor(std::move(array));
}

}  // namespace

Tensor empty(const Shape& shape, Dtype dtype) { return Tensor(Array(checked("empty", shape), dtype)); }
Tensor zeros(const Shape& shape, Dtype dtype) { return filled("zeros", shape, 0, dtype); }
Tensor ones(const Shape& shape, Dtype dtype) { return filled("ones", shape, 1, dtype); }
Tensor full(const Shape& shape, const Scalar& value, Dtype dtype) { return filled("full", shape, value, dtype); }
Tensor empty_like(const Operand& like) { return empty(like.shape(), like.dtype()); }
Tensor zeros_like(const Operand& like) { return zeros(like.shape(), like.dtype()); }
Tensor ones_like(const Operand& like) { return ones(like.shape(), like.dtype()); }
Tensor full_like(const Operand& like, const Scalar& value) { return full(like.shape(), value, like.dtype()); }

Tensor eye(std::int64_t n, Dtype dtype) { return eye(n, n, dtype); }
Tensor eye(std::int64_t rows, std::int64_t columns, Dtype dtype) {
  Array array(checked("eye", {rows, columns}), dtype);
  core::copy_into(array, array_of(0));
  const std::int64_t ones = std::min(rows, columns);
  if (ones > 0) core::copy_into(Array(array.storage(), 0, {ones}, {columns + 1}, dtype), array_of(1));
  return Tensor(std::move(array));
}

Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step, std::optional<Dtype> dtype) {
  const bool integers = !is_floating(start.kind()) && !is_floating(stop.kind()) && !is_floating(step.kind());
  if (step.real() == 0 || !std::isfinite(start.real()) || !std::isfinite(stop.real()) || !std::isfinite(step.real()))
    throw ValueError("arange: all must be finite and step must not be 0; got start " + std::to_string(start.real()) +
                     ", stop " + std::to_string(stop.real()) + ", step " + std::to_string(step.real()));
  const double steps = integers ? static_cast<double>(steps_between(start.integer(), stop.integer(), step.integer()))
                                : std::ceil((stop.real() - start.real()) / step.real());
  if (steps > 0x1p58)
    throw ValueError("arange: the number of elements must fit into memory; got " + std::to_string(steps) +
                     "; take a larger step");
  const std::int64_t count = steps > 0 ? static_cast<std::int64_t>(steps) : 0;
  Array array({count}, integers ? int64 : float64);
  std::uint64_t whole = start.integer();  // unsigned: what follows the last element may not fit
  for (std::int64_t i = 0; i < count; ++i, whole += step.integer())
    if (integers)
      array.data<std::int64_t>()[i] = static_cast<std::int64_t>(whole);
    else
      array.data<double>()[i] = start.real() + static_cast<double>(i) * step.real();
  return Tensor(array.converted(dtype.value_or(integers ? int64 : float32)));
}

Tensor arange(const Scalar& stop, std::optional<Dtype> dtype) {
  return stop.kind() == float32 ? arange(0.0, stop, 1.0, dtype) : arange(0, stop, 1, dtype);
}

Tensor linspace(double start, double stop, std::int64_t count, Dtype dtype) {
  Array array(checked("linspace", {count}), float64);
  double* out = array.data<double>();
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  for (std::int64_t i = 0; i < count; ++i)  // from both ends, so that both are exact and the values symmetric
    out[i] =
        i < (count + 1) / 2 ? start + static_cast<double>(i) * step : stop - static_cast<double>(count - 1 - i) * step;
  return Tensor(array.converted(dtype));
}

Tensor rand(const Shape& shape, Dtype dtype) { return random("rand", shape, dtype, core::random_uniform); }
Tensor randn(const Shape& shape, Dtype dtype) { return random("randn", shape, dtype, core::random_normal); }
Tensor rand_like(const Operand& like) { return rand(like.shape(), like.dtype()); }
Tensor randn_like(const Operand& like) { return randn(like.shape(), like.dtype()); }

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape) {
  if (low >= high)
    throw ValueError("randint: low must be below high; got " + std::to_string(low) + " and " + std::to_string(high));
  const autograd::Span span("randint");
  return Tensor(core::random_integers(low, high, checked("randint", shape)));
}

Tensor randperm(std::int64_t n) {
  Array array = core::random_integers(0, std::numeric_limits<std::int64_t>::max(), checked("randperm", {n}));
  std::int64_t* order = array.data<std::int64_t>();
  // Fisher and Yates, inside out: element i goes to a random place among the first i + 1, whose element moves to i.
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t place = order[i] % (i + 1);
    order[i] = order[place];
    order[place] = i;
  }
  return Tensor(std::move(array));
}

Tensor from_values(const void* values, Dtype from, const Shape& shape, Dtype dtype) {
  Array array(checked("from_values", shape), from);
  if (array.numel() > 0)
    std::memcpy(array.storage()->data(), values, static_cast<std::size_t>(array.numel() * size_of(from)));
  return Tensor(array.converted(dtype));
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, std::optional<Dtype> dtype) {
  if (static_cast<std::int64_t>(values.size()) != checked("from_vector", shape).numel())
    throw ShapeError("from_vector: the shape must have as many elements as there are values; got shape " +
                     shape.to_string() + " and " + std::to_string(values.size()) + " values");
  const Dtype result = dtype.value_or(default_dtype<T>());
  if constexpr (std::is_same_v<T, bool>) {
    Array array(shape, boolean);
    std::copy(values.begin(), values.end(), array.data<bool>());
    return Tensor(array.converted(result));
  } else {
    return from_values(values.data(), dtype_of<T>, shape, result);
  }
}
template Tensor from_vector(const std::vector<float>&, const Shape&, std::optional<Dtype>);
template Tensor from_vector(const std::vector<double>&, const Shape&, std::optional<Dtype>);
template Tensor from_vector(const std::vector<std::int64_t>&, const Shape&, std::optional<Dtype>);
template Tensor from_vector(const std::vector<bool>&, const Shape&, std::optional<Dtype>);

}  // namespace tapegrad
