// Elementwise kernels of two operands, and writing in place.
#include <algorithm>
#include <cmath>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/elementwise.hpp>
#include <tapegrad/core/kernels/kernels.hpp>
#include <tapegrad/core/kernels/map.hpp>

namespace tapegrad::core::kernels {
namespace {

/// Calls f(Type<T>{}) for the dtypes that numbers have.
template <class F>
Array dispatch_numbers(const char* operation, Dtype dtype, F f) {
  if (dtype == Dtype::int64) return f(Type<std::int64_t>{});
  return dispatch_floating(operation, dtype, f);
}

template <class F>
Array binary(const char* operation, const Array& a, const Array& b, F f) {
  const Shape shape = common_shape(operation, a, b);
  return dispatch_numbers(operation, a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T, T>(shape, f, a, b);
  });
}
template <class F>
Array binary(const char* operation, const Array& a, Number b, F f) {
  return dispatch_numbers(operation, a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T>(
        a.shape(), [f, b = b.as<T>()](auto x) { return f(x, decltype(x)(b)); }, a);
  });
}
template <class F>
Array binary(const char* operation, Number a, const Array& b, F f) {
  return binary(operation, b, a, [f](auto x, auto y) { return f(y, x); });
}

constexpr auto kAdd = [](auto x, auto y) { return x + y; };
constexpr auto kSubtract = [](auto x, auto y) { return x - y; };
constexpr auto kMultiply = [](auto x, auto y) { return x * y; };
constexpr auto kDivide = [](auto x, auto y) { return x / y; };
constexpr auto kOr = [](bool x, bool y) { return x || y; };
constexpr auto kAnd = [](bool x, bool y) { return x && y; };

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  std::uint64_t result = 1,
                factor = static_cast<std::uint64_t>(base);  // unsigned: overflow wraps, as in all integer arrays
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
template <class T>
struct PowerOfNumber {
  T exponent;
  T operator()(T x) const { return Power{}(x, exponent); }
};
template <class T>
struct NumberToPower {
  T base;
  T operator()(T exponent) const { return Power{}(base, exponent); }
};
template <class T>
struct PowerOf {
  T operator()(T x, T y) const { return Power{}(x, y); }
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

Array divide(const Array& a, const Array& b) {
  const Shape shape = common_shape("divide", a, b);
  return dispatch_floating("divide", a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T, T>(shape, kDivide, a, b);
  });
}
Array divide(const Array& a, Number b) {
  return dispatch_floating("divide", a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T>(
        a.shape(), [b = b.as<T>()](auto x) { return x / decltype(x)(b); }, a);
  });
}
Array divide(Number a, const Array& b) {
  return dispatch_floating("divide", b.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T>(
        b.shape(), [a = a.as<T>()](auto x) { return decltype(x)(a) / x; }, b);
  });
}

Array pow(const Array& a, const Array& b) {
  const Shape shape = common_shape("pow", a, b);
  return dispatch_numbers("pow", a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T, T>(shape, PowerOf<T>{}, a, b);
  });
}
Array pow(const Array& a, Number b) {
  if (b.real == 2) return binary("pow", a, b, [](auto x, auto) { return x * x; });
  if (b.real == 3) return binary("pow", a, b, [](auto x, auto) { return x * x * x; });
  return dispatch_numbers("pow", a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T>(a.shape(), PowerOfNumber<T>{b.as<T>()}, a);
  });
}
Array pow(Number a, const Array& b) {
  return dispatch_numbers("pow", b.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T>(b.shape(), NumberToPower<T>{a.as<T>()}, b);
  });
}

namespace {

/// x if `chosen`, or if it is NaN; y else (which may be NaN too).
template <class X, class C>
X choose(const X& x, const X& y, const C& chosen) {
  if constexpr (std::is_integral_v<X>)
    return chosen ? x : y;
  else
    return xsimd::select(chosen | xsimd::isnan(x), x, y);  // xsimd's x != x is false for NaN
}

}  // namespace

Array maximum(const Array& a, const Array& b) {
  if (a.dtype() == Dtype::boolean) return add(a, b);
  return binary("maximum", a, b, [](auto x, auto y) { return choose(x, y, x > y); });
}
Array minimum(const Array& a, const Array& b) {
  if (a.dtype() == Dtype::boolean) return multiply(a, b);
  return binary("minimum", a, b, [](auto x, auto y) { return choose(x, y, x < y); });
}

void add_in_place(const Array& a, const Array& b) {
  dispatch_numbers("add", a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    map_into<T, T, T>(a, kAdd, a, b);
    return a;
  });
}

void fill(const Array& array, double value) {
  dispatch(array.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
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
