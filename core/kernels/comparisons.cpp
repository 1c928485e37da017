// Elementwise kernels that make or take booleans.
#include <cmath>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/elementwise.hpp>
#include <tapegrad/core/kernels/map.hpp>

namespace tapegrad::core::kernels {
namespace {

/// Calls f(c), where c(x, y) is the comparison of two numbers.
template <class F>
Array dispatch_comparison(Comparison comparison, F f) {
  switch (comparison) {
    case Comparison::eq: return f([](auto x, auto y) { return x == y; });
    case Comparison::ne: return f([](auto x, auto y) { return x != y; });
    case Comparison::lt: return f([](auto x, auto y) { return x < y; });
    case Comparison::le: return f([](auto x, auto y) { return x <= y; });
    case Comparison::gt: return f([](auto x, auto y) { return x > y; });
    default: return f([](auto x, auto y) { return x >= y; });
  }
}

const char* name_of(Comparison comparison) {
  constexpr const char* names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  return names[static_cast<int>(comparison)];
}

/// Booleans as they are read: compilers turn loops over bytes into vectors, loops over bool not.
using Flag = std::uint8_t;

template <class F>
Array classify(const Array& x, F f) {
  return dispatch(x.dtype(), [&]<class T>(Type<T>) { return map<bool, T>(x.shape(), f, x); });
}

}  // namespace

Array compare(Comparison comparison, const Array& a, const Array& b) {
  const Shape shape = common_shape(name_of(comparison), a, b);
  return dispatch(a.dtype(), [&]<class T>(Type<T>) {
    return dispatch_comparison(comparison, [&](auto f) { return map<bool, T, T>(shape, f, a, b); });
  });
}
Array compare(Comparison comparison, const Array& a, Number b) {
  return dispatch(a.dtype(), [&]<class T>(Type<T>) {
    return dispatch_comparison(comparison, [&](auto f) {
      const auto with_b = [f, b = b.as<T>()](T x) { return f(x, b); };
      return map<bool, T>(a.shape(), with_b, a);
    });
  });
}

Array logical_and(const Array& a, const Array& b) {
  const auto both = [](Flag x, Flag y) { return (x & y) != 0; };
  return map<bool, Flag, Flag>(common_shape("logical_and", a, b), both, a, b);
}
Array logical_or(const Array& a, const Array& b) {
  const auto either = [](Flag x, Flag y) { return (x | y) != 0; };
  return map<bool, Flag, Flag>(common_shape("logical_or", a, b), either, a, b);
}
Array logical_not(const Array& x) {
  return classify(x, [](auto value) { return value == decltype(value)(0); });
}
Array isnan(const Array& x) {
  return classify(x, [](auto value) { return value != value; });
}
Array isfinite(const Array& x) {
  return classify(x, [](auto value) { return value - value == decltype(value)(0); });
}
Array is_close(const Array& a, const Array& b, double rtol, double atol) {
  const auto close = [rtol, atol](double x, double y) {
    return x == y || (std::isfinite(y) && std::abs(x - y) <= atol + rtol * std::abs(y));
  };
  return map<bool, double, double>(common_shape("allclose", a, b), close, a, b);
}

Array where(const Array& condition, const Array& a, const Array& b) {
  Shape shape = common_shape("where", a, b);
  if (shape != condition.shape()) shape = broadcast_shapes("where", condition.shape(), shape);
  return dispatch(a.dtype(), [&]<class T>(Type<T>) {
    const auto pick = [](Flag chosen, T x, T y) { return chosen ? x : y; };
    return map<T, Flag, T, T>(shape, pick, condition, a, b);
  });
}
Array where(const Array& condition, const Array& a, Number b) {
  return dispatch(a.dtype(), [&]<class T>(Type<T>) {
    const auto pick = [b = b.as<T>()](Flag chosen, T x) { return chosen ? x : b; };
    return map<T, Flag, T>(common_shape("where", condition, a), pick, condition, a);
  });
}
Array where(const Array& condition, Number a, const Array& b) {
  return dispatch(b.dtype(), [&]<class T>(Type<T>) {
    const auto pick = [a = a.as<T>()](Flag chosen, T x) { return chosen ? a : x; };
    return map<T, Flag, T>(common_shape("where", condition, b), pick, condition, b);
  });
}

Array clamp(const Array& x, Number low, Number high) {
  return dispatch(x.dtype(), [&]<class T>(Type<T>) {
    const auto between = [low = low.as<T>(), high = high.as<T>()](T v) { return v < low ? low : v > high ? high : v; };
    return map<T, T>(x.shape(), between, x);
  });
}

}  // namespace tapegrad::core::kernels
