// Elementwise kernels of one operand, and of a gradient beside it.
#include <cmath>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/distributions.hpp>
#include <tapegrad/core/kernels/elementwise.hpp>
#include <tapegrad/core/kernels/map.hpp>
#include <tapegrad/core/kernels/simd_math.hpp>

namespace tapegrad::core::kernels {
namespace {

template <class F>
Array function(const char* name, const Array& x, F f) {
  return dispatch_floating(name, x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T>(x.shape(), f, x);
  });
}
template <class F>
Array function_of_numbers(const char* name, const Array& x, F f) {
  if (x.dtype() == Dtype::int64) return map<std::int64_t, std::int64_t>(x.shape(), f, x);
  return function(name, x, f);
}
template <class F>
Array rounded(const char* name, const Array& x, F f) {
  return is_floating(x.dtype()) ? function(name, x, f) : x.copy();
}
/// f(g, v), where v is the input or the result of the operation.
template <class F>
Array backward(const char* name, const Array& g, const Array& v, F f) {
  return dispatch_floating(name, v.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    return map<T, T, T>(v.shape(), f, g, v);
  });
}

/// x F(x) of a distribution: x - x F(-x) for positive x, so that both sides need the tail alone.
template <class F>
Array gated(const char* name, const Array& x) {
  return function(name, x, [](auto v) {
    using X = decltype(v);
    const X z = simd::magnitude(v, F::template kEnd<typename X::value_type>);
    return xsimd::select(v > X(0), v, X(0)) - z * F::at(z).tail;
  });
}
/// Its derivative, F(x) + x F'(x); for x and -x these add up to 1.
template <class F>
Array gated_backward(const char* name, const Array& g, const Array& x) {
  return backward(name, g, x, [](auto g, auto x) {
    using X = decltype(x);
    const X z = simd::magnitude(x, F::template kEnd<typename X::value_type>);
    const auto [tail, density] = F::at(z);
    const X left = tail - z * density;
    return g * xsimd::select(x < X(0), left, X(1) - left);
  });
}

}  // namespace

Array negative(const Array& x) {
  return function_of_numbers("neg", x, [](auto v) { return -v; });
}
Array absolute(const Array& x) {
  return function_of_numbers("abs", x, [](auto v) {
    if constexpr (std::is_integral_v<decltype(v)>)
      return v < 0 ? -v : v;
    else
      return xsimd::abs(v);
  });
}
Array sign(const Array& x) {
  return function_of_numbers("sign", x, [](auto v) {
    using X = decltype(v);
    if constexpr (std::is_integral_v<X>)
      return static_cast<X>((v > 0) - (v < 0));
    else
      return xsimd::select(v > X(0), X(1), xsimd::select(v < X(0), X(-1), v));
  });
}
Array square(const Array& x) {
  return function_of_numbers("square", x, [](auto v) { return v * v; });
}
Array relu(const Array& x) {
  return function_of_numbers("relu", x, [](auto v) {
    using X = decltype(v);
    if constexpr (std::is_integral_v<X>)
      return v < 0 ? X(0) : v;
    else
      return xsimd::select(v <= X(0), X(0), v);
  });
}
Array floor(const Array& x) {
  return rounded("floor", x, [](auto v) { return xsimd::floor(v); });
}
Array ceil(const Array& x) {
  return rounded("ceil", x, [](auto v) { return xsimd::ceil(v); });
}
Array round(const Array& x) {
  return rounded("round", x, [](auto v) { return xsimd::nearbyint(v); });
}

Array exp(const Array& x) {
  return function("exp", x, [](auto v) { return simd::exp(v); });
}
Array log(const Array& x) {
  return function("log", x, [](auto v) { return simd::log(v); });
}
Array log1p(const Array& x) {
  return function("log1p", x, [](auto v) { return xsimd::log1p(v); });
}
Array sqrt(const Array& x) {
  return function("sqrt", x, [](auto v) { return xsimd::sqrt(v); });
}
Array rsqrt(const Array& x) {
  return function("rsqrt", x, [](auto v) { return decltype(v)(1) / xsimd::sqrt(v); });
}
Array reciprocal(const Array& x) {
  return function("reciprocal", x, [](auto v) { return decltype(v)(1) / v; });
}
Array sin(const Array& x) {
  return function("sin", x, [](auto v) { return xsimd::sin(v); });
}
Array cos(const Array& x) {
  return function("cos", x, [](auto v) { return xsimd::cos(v); });
}
Array tanh(const Array& x) {
  return function("tanh", x, [](auto v) { return simd::tanh(v); });
}
Array erf(const Array& x) {
  return function("erf", x, [](auto v) { return simd::erf(v); });
}
Array sigmoid(const Array& x) {
  return function("sigmoid", x, [](auto v) { return simd::sigmoid(v); });
}
Array softplus(const Array& x) {
  return function("softplus", x, [](auto v) {
    using X = decltype(v);
    return xsimd::select(v > X(0), v, X(0)) + xsimd::log1p(simd::exp(-xsimd::abs(v)));
  });
}
Array silu(const Array& x) { return gated<Logistic>("silu", x); }
Array gelu(const Array& x) { return gated<Normal>("gelu", x); }
Array gelu_tanh(const Array& x) { return gated<TanhNormal>("gelu", x); }

Array sqrt_backward(const Array& g, const Array& y) {
  return backward("sqrt", g, y, [](auto g, auto y) {
    using X = decltype(g);
    return xsimd::select((g == X(0)) & (y == X(0)), X(0), g / (y + y));
  });
}
Array tanh_backward(const Array& g, const Array& y) {
  return backward("tanh", g, y, [](auto g, auto y) { return g * (decltype(g)(1) - y * y); });
}
Array sigmoid_backward(const Array& g, const Array& y) {
  return backward("sigmoid", g, y, [](auto g, auto y) { return g * y * (decltype(g)(1) - y); });
}
Array relu_backward(const Array& g, const Array& x) {
  return backward("relu", g, x, [](auto g, auto x) { return xsimd::select(x > decltype(x)(0), g, decltype(g)(0)); });
}
Array silu_backward(const Array& g, const Array& x) { return gated_backward<Logistic>("silu", g, x); }
Array gelu_backward(const Array& g, const Array& x) { return gated_backward<Normal>("gelu", g, x); }
Array gelu_tanh_backward(const Array& g, const Array& x) { return gated_backward<TanhNormal>("gelu", g, x); }

}  // namespace tapegrad::core::kernels
