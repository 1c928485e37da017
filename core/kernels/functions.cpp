// Elementwise kernels of one operand, and of a gradient beside it.
#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/distributions.hpp>
#include <tapegrad/core/kernels/elementwise.hpp>
#include <tapegrad/core/kernels/map.hpp>
#include <tapegrad/core/kernels/simd_math.hpp>

namespace tapegrad::core::kernels {
namespace {

template <class F>
Array function(const char* name, const Array& x, F f) {
  return dispatch_floating(name, x.dtype(), [&]<class T>(Type<T>) { return map<T, T>(x.shape(), f, x); });
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
  return dispatch_floating(name, v.dtype(), [&]<class T>(Type<T>) { return map<T, T, T>(v.shape(), f, g, v); });
}

/// x F(x) of a distribution: x - x F(-x) for positive x, so that both sides need the tail alone.
template <class X>
X gated_value(const X& x, const X& z, const X& tail) {
  return xsimd::select(x > X(0), x, X(0)) - z * tail;
}
/// Its derivative, F(x) + x F'(x); for x and -x these add up to 1.
template <class X>
X gated_slope(const X& x, const X& z, const X& tail, const X& density) {
  const X left = tail - z * density;
  return xsimd::select(x < X(0), left, X(1) - left);
}

template <class F>
Array gated(const char* name, const Array& x) {
  return function(name, x, [](auto v) {
    const auto z = simd::magnitude(v, F::template kEnd<typename decltype(v)::value_type>);
    return gated_value(v, z, F::at(z).tail);
  });
}
template <class F>
Array gated_backward(const char* name, const Array& g, const Array& x) {
  return backward(name, g, x, [](auto g, auto x) {
    const auto z = simd::magnitude(x, F::template kEnd<typename decltype(x)::value_type>);
    const auto [tail, density] = F::at(z);
    return g * gated_slope(x, z, tail, density);
  });
}
/// Both in one pass: returns x F(x), and multiplies the elements of g by the derivative.
template <class F>
Array gated_forward_backward(const char* name, const Array& g, const Array& x_any) {
  const Array x = x_any.contiguous(), y(x.shape(), x.dtype());
  dispatch_floating(name, x.dtype(), [&]<class T>(Type<T>) {
    parallel_ranges(x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for_each_batch<T>(end - begin, [&](std::int64_t i, auto count) {
        const simd::Batch<T> v = load(x.data<T>() + begin + i, count), z = simd::magnitude(v, F::template kEnd<T>);
        const auto [tail, density] = F::at(z);
        T* gradient = g.data<T>() + begin + i;
        store(y.data<T>() + begin + i, gated_value(v, z, tail), count);
        store(gradient, load(gradient, count) * gated_slope(v, z, tail, density), count);
      });
    });
  });
  return y;
}

std::int64_t select(bool chosen, std::int64_t a, std::int64_t b) { return chosen ? a : b; }

// The formulas, of batches and of integers where integers are taken; for batches `select` is xsimd's.
constexpr auto kAbsolute = [](auto v) { return xsimd::abs(v); };
constexpr auto kSign = []<class X>(X v) { return select(v > X(0), X(1), select(v < X(0), X(-1), v)); };
constexpr auto kSquare = [](auto v) { return v * v; };
constexpr auto kRelu = []<class X>(X v) { return select(v <= X(0), X(0), v); };
constexpr auto kFloor = [](auto v) { return xsimd::floor(v); };
constexpr auto kCeil = [](auto v) { return xsimd::ceil(v); };
constexpr auto kRound = [](auto v) { return xsimd::nearbyint(v); };
constexpr auto kExp = [](auto v) { return simd::exp(v); };
constexpr auto kExpm1 = [](auto v) { return xsimd::expm1(v); };
constexpr auto kLog = [](auto v) { return simd::log(v); };
constexpr auto kLog1p = [](auto v) { return xsimd::log1p(v); };
constexpr auto kSqrt = [](auto v) { return xsimd::sqrt(v); };
constexpr auto kSin = [](auto v) { return xsimd::sin(v); };
constexpr auto kCos = [](auto v) { return xsimd::cos(v); };
constexpr auto kAtan = [](auto v) { return xsimd::atan(v); };
constexpr auto kTanh = [](auto v) { return simd::tanh(v); };
constexpr auto kErf = [](auto v) { return simd::erf(v); };
constexpr auto kSigmoid = [](auto v) { return simd::sigmoid(v); };
constexpr auto kSoftplus = []<class X>(X v) {
  return select(v > X(0), v, X(0)) + xsimd::log1p(simd::exp(-xsimd::abs(v)));
};

// Gradients: g times the derivative.
constexpr auto kSqrtBackward = []<class X>(X g, X y) { return select((g == X(0)) & (y == X(0)), X(0), g / (y + y)); };
constexpr auto kTanhBackward = []<class X>(X g, X y) { return g * (X(1) - y * y); };
constexpr auto kSigmoidBackward = []<class X>(X g, X y) { return g * y * (X(1) - y); };
constexpr auto kReluBackward = []<class X>(X g, X x) { return select(x > X(0), g, X(0)); };

}  // namespace

Array absolute(const Array& x) { return function_of_numbers("abs", x, kAbsolute); }
Array sign(const Array& x) { return function_of_numbers("sign", x, kSign); }
Array square(const Array& x) { return function_of_numbers("square", x, kSquare); }
Array relu(const Array& x) { return function_of_numbers("relu", x, kRelu); }
Array floor(const Array& x) { return rounded("floor", x, kFloor); }
Array ceil(const Array& x) { return rounded("ceil", x, kCeil); }
Array round(const Array& x) { return rounded("round", x, kRound); }

Array exp(const Array& x) { return function("exp", x, kExp); }
Array expm1(const Array& x) { return function("expm1", x, kExpm1); }
Array log(const Array& x) { return function("log", x, kLog); }
Array log1p(const Array& x) { return function("log1p", x, kLog1p); }
Array sqrt(const Array& x) { return function("sqrt", x, kSqrt); }
Array sin(const Array& x) { return function("sin", x, kSin); }
Array cos(const Array& x) { return function("cos", x, kCos); }
Array atan(const Array& x) { return function("atan", x, kAtan); }
Array tanh(const Array& x) { return function("tanh", x, kTanh); }
Array erf(const Array& x) { return function("erf", x, kErf); }
Array sigmoid(const Array& x) { return function("sigmoid", x, kSigmoid); }
Array softplus(const Array& x) { return function("softplus", x, kSoftplus); }
Array silu(const Array& x) { return gated<Logistic>("silu", x); }
Array gelu(const Array& x) { return gated<Normal>("gelu", x); }
Array gelu_tanh(const Array& x) { return gated<TanhNormal>("gelu", x); }

Array sqrt_backward(const Array& g, const Array& y) { return backward("sqrt", g, y, kSqrtBackward); }
Array tanh_backward(const Array& g, const Array& y) { return backward("tanh", g, y, kTanhBackward); }
Array sigmoid_backward(const Array& g, const Array& y) { return backward("sigmoid", g, y, kSigmoidBackward); }
Array relu_backward(const Array& g, const Array& x) { return backward("relu", g, x, kReluBackward); }
Array leaky(const Array& v, const Array& x, double slope) {
  return backward("leaky_relu", v, x, [slope]<class X>(X v, X x) {
    return select(x > X(0), v, v * X(static_cast<typename X::value_type>(slope)));
  });
}
Array silu_backward(const Array& g, const Array& x) { return gated_backward<Logistic>("silu", g, x); }
Array gelu_backward(const Array& g, const Array& x) { return gated_backward<Normal>("gelu", g, x); }
Array gelu_tanh_backward(const Array& g, const Array& x) { return gated_backward<TanhNormal>("gelu", g, x); }
Array gelu_forward_backward(const Array& g, const Array& x) { return gated_forward_backward<Normal>("gelu", g, x); }

}  // namespace tapegrad::core::kernels
