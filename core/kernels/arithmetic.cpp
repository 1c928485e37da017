// Elementwise kernels of two operands, and writing in place.
#include <algorithm>
#include <cmath>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/elementwise.hpp>
#include <tapegrad/core/kernels/kernels.hpp>
#include <tapegrad/core/kernels/map.hpp>

namespace tapegrad::core::kernels {
namespace {

/// Calls g(Type<T>{}) for the dtypes of the numbers that f(x, y) takes: floating ones, or integers too.
template <class F, class G>
auto dispatch_for(const F&, const char* operation, Dtype dtype, G g) {
  if constexpr (std::is_invocable_v<F, std::int64_t, std::int64_t>)
    if (dtype == Dtype::int64) return g(Type<std::int64_t>{});
  return dispatch_floating(operation, dtype, g);
}

template <class F>
Array binary(const char* operation, const Array& a, const Array& b, F f) {
  const Shape shape = common_shape(operation, a, b);
  return dispatch_for(f, operation, a.dtype(), [&]<class T>(Type<T>) { return map<T, T, T>(shape, f, a, b); });
}
template <class F>
Array binary(const char* operation, const Array& a, Number b, F f) {
  return dispatch_for(f, operation, a.dtype(), [&]<class T>(Type<T>) {
    const auto with_b = [f, b = b.as<T>()]<class X>(X x) -> std::invoke_result_t<F, X, X> { return f(x, X(b)); };
    return map<T, T>(a.shape(), with_b, a);
  });
}
template <class F>
Array binary(const char* operation, Number a, const Array& b, F f) {
  return binary(operation, b, a, [f]<class X>(X x, X y) -> std::invoke_result_t<F, X, X> { return f(y, x); });
}

constexpr auto kAdd = [](auto x, auto y) { return x + y; };
constexpr auto kSubtract = [](auto x, auto y) { return x - y; };
constexpr auto kMultiply = [](auto x, auto y) { return x * y; };
constexpr auto kDivide = []<class X>(X x, X y) requires(!std::is_integral_v<X>) { return x / y; };
constexpr auto kOr = [](bool x, bool y) { return x || y; };
constexpr auto kAnd = [](bool x, bool y) { return x && y; };

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  // Unsigned: overflow wraps, as in all integer arrays.
  std::uint64_t result = 1, factor = static_cast<std::uint64_t>(base);
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1) result *= factor;
  return static_cast<std::int64_t>(result);
}

/// Plain numbers, not batches: xsimd's pow loses digits and is wrong for zero, infinity and NaN.
struct Power {
  float operator()(float x, float y) const { return std::pow(x, y); }
  double operator()(double x, double y) const { return std::pow(x, y); }
  std::int64_t operator()(std::int64_t x, std::int64_t y) const { return integer_power(x, y); }
};

}  // namespace

Array add(const Array& a, const Array& b) {
  if (a.dtype() == Dtype::boolean) return map<bool, bool, bool>(common_shape("add", a, b), kOr, a, b);
  return binary("add", a, b, kAdd);
}
Array add(const Array& a, Number b) {
  if (a.dtype() == Dtype::boolean) return b.real != 0 ? compare(Comparison::ge, a, Number{}) : a.copy();
  return binary("add", a, b, kAdd);
}
Array subtract(const Array& a, const Array& b) { return binary("subtract", a, b, kSubtract); }
Array subtract(const Array& a, Number b) { return binary("subtract", a, b, kSubtract); }
Array subtract(Number a, const Array& b) { return binary("subtract", a, b, kSubtract); }
Array multiply(const Array& a, const Array& b) {
  if (a.dtype() == Dtype::boolean) return map<bool, bool, bool>(common_shape("multiply", a, b), kAnd, a, b);
  return binary("multiply", a, b, kMultiply);
}
Array multiply(const Array& a, Number b) {
  if (a.dtype() == Dtype::boolean) return b.real != 0 ? a.copy() : compare(Comparison::lt, a, Number{});
  return binary("multiply", a, b, kMultiply);
}

Array divide(const Array& a, const Array& b) { return binary("divide", a, b, kDivide); }
Array divide(const Array& a, Number b) { return binary("divide", a, b, kDivide); }
Array divide(Number a, const Array& b) { return binary("divide", a, b, kDivide); }

Array pow(const Array& a, const Array& b) { return binary("pow", a, b, Power{}); }
Array pow(const Array& a, Number b) {
  if (b.real == 2) return binary("pow", a, b, [](auto x, auto) { return x * x; });
  if (b.real == 3) return binary("pow", a, b, [](auto x, auto) { return x * x * x; });
  return binary("pow", a, b, Power{});
}
Array pow(Number a, const Array& b) { return binary("pow", a, b, Power{}); }

Array maximum(const Array& a, const Array& b) {
  if (a.dtype() == Dtype::boolean) return add(a, b);
  return binary("maximum", a, b, [](auto x, auto y) { return choose(x > y, x, y); });
}
Array minimum(const Array& a, const Array& b) {
  if (a.dtype() == Dtype::boolean) return multiply(a, b);
  return binary("minimum", a, b, [](auto x, auto y) { return choose(x < y, x, y); });
}

void add_in_place(const Array& a, const Array& b) {
  dispatch_for(kAdd, "add", a.dtype(), [&]<class T>(Type<T>) { map_into<T, T, T>(a, kAdd, a, b); });
}

void fill(const Array& array, double value) {
  dispatch(array.dtype(), [&]<class T>(Type<T>) {
    if (array.is_contiguous()) {
      T* const data = array.data<T>();
      return parallel_ranges(array.numel(), 8 * kGrain, [&](std::int64_t begin, std::int64_t end) {
        std::fill(data + begin, data + end, static_cast<T>(value));
      });
    }
    Array one({}, array.dtype());
    *one.data<T>() = static_cast<T>(value);
    copy_into(array, one);
  });
}

}  // namespace tapegrad::core::kernels
