// Functions of one operand: value and gradient side by side. Those with a kernel for the gradient use it unless the
// sweep itself is recorded.
#include <cmath>
#include <string>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/promotion.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad {

using autograd::is_recording;
using autograd::number;
using autograd::record;
namespace kernels = core::kernels;

namespace {

/// f(x), with integers converted to float32.
template <class F>
Tensor real_function(const Tensor& x, F f) {
  return is_floating(x.dtype()) ? f(x) : f(to(x, float32));
}
/// Booleans count as integers.
template <class F>
Tensor numeric_function(const Tensor& x, F f) {
  return x.dtype() == boolean ? f(to(x, int64)) : f(x);
}

/// For functions that are constant between their steps.
Tensor record_step(const char* name, core::Array value, const Tensor& x) {
  return record(name, std::move(value), {x}, [](const Tensor& g) { return Tensors{zeros_like(g)}; });
}

constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

}  // namespace

Tensor operator-(const Tensor& a) { return neg(a); }
Tensor neg(const Tensor& x) {
  return numeric_function(x, [](const Tensor& x) {
    return record("neg", kernels::negative(x.array()), {x}, [](const Tensor& g) { return Tensors{-g}; });
  });
}
Tensor abs(const Tensor& x) {
  return numeric_function(x, [](const Tensor& x) {
    return record("abs", kernels::absolute(x.array()), {x}, [x](const Tensor& g) { return Tensors{g * sign(x)}; });
  });
}
Tensor sign(const Tensor& x) {
  return numeric_function(x, [](const Tensor& x) { return record_step("sign", kernels::sign(x.array()), x); });
}
Tensor square(const Tensor& x) {
  return numeric_function(x, [](const Tensor& x) {
    return record("square", kernels::square(x.array()), {x}, [x](const Tensor& g) { return Tensors{g * (x * 2)}; });
  });
}
Tensor floor(const Tensor& x) { return record_step("floor", kernels::floor(x.array()), x); }
Tensor ceil(const Tensor& x) { return record_step("ceil", kernels::ceil(x.array()), x); }
Tensor round(const Tensor& x) { return record_step("round", kernels::round(x.array()), x); }

Tensor exp(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("exp", kernels::exp(x.array()), {x}, [](const Tensor& g, const Tensor& y) { return Tensors{g * y}; });
  });
}
Tensor log(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("log", kernels::log(x.array()), {x}, [x](const Tensor& g) { return Tensors{g / x}; });
  });
}
Tensor log1p(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("log1p", kernels::log1p(x.array()), {x}, [x](const Tensor& g) { return Tensors{g / (x + 1)}; });
  });
}
Tensor sqrt(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("sqrt", kernels::sqrt(x.array()), {x}, [](const Tensor& g, const Tensor& y) {
      if (!is_recording({g, y})) return Tensors{Tensor(kernels::sqrt_backward(g.array(), y.array()))};
      return Tensors{g / (where(logical_and(eq(g, 0), eq(y, 0)), 1, y) * 2)};
    });
  });
}
Tensor rsqrt(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("rsqrt", kernels::rsqrt(x.array()), {x},
                  [](const Tensor& g, const Tensor& y) { return Tensors{g * (pow(y, 3) * -0.5)}; });
  });
}
Tensor reciprocal(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("reciprocal", kernels::reciprocal(x.array()), {x},
                  [](const Tensor& g, const Tensor& y) { return Tensors{-(g * square(y))}; });
  });
}
Tensor sin(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("sin", kernels::sin(x.array()), {x}, [x](const Tensor& g) { return Tensors{g * cos(x)}; });
  });
}
Tensor cos(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("cos", kernels::cos(x.array()), {x}, [x](const Tensor& g) { return Tensors{-(g * sin(x))}; });
  });
}
Tensor tanh(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("tanh", kernels::tanh(x.array()), {x}, [](const Tensor& g, const Tensor& y) {
      if (!is_recording({g, y})) return Tensors{Tensor(kernels::tanh_backward(g.array(), y.array()))};
      return Tensors{g * (1 - square(y))};
    });
  });
}
Tensor erf(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("erf", kernels::erf(x.array()), {x},
                  [x](const Tensor& g) { return Tensors{g * (exp(-square(x)) * kTwoOverSqrtPi)}; });
  });
}
Tensor sigmoid(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("sigmoid", kernels::sigmoid(x.array()), {x}, [](const Tensor& g, const Tensor& y) {
      if (!is_recording({g, y})) return Tensors{Tensor(kernels::sigmoid_backward(g.array(), y.array()))};
      return Tensors{g * (y * (1 - y))};
    });
  });
}
Tensor softplus(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("softplus", kernels::softplus(x.array()), {x},
                  [x](const Tensor& g) { return Tensors{g * sigmoid(x)}; });
  });
}
Tensor relu(const Tensor& x) {
  return numeric_function(x, [](const Tensor& x) {
    return record("relu", kernels::relu(x.array()), {x}, [x](const Tensor& g) {
      if (!is_recording({g, x})) return Tensors{Tensor(kernels::relu_backward(g.array(), x.array()))};
      return Tensors{where(gt(x, 0), g, 0)};
    });
  });
}
Tensor silu(const Tensor& x) {
  return real_function(x, [](const Tensor& x) {
    return record("silu", kernels::silu(x.array()), {x}, [x](const Tensor& g) {
      if (!is_recording({g, x})) return Tensors{Tensor(kernels::silu_backward(g.array(), x.array()))};
      const Tensor s = sigmoid(x);
      return Tensors{g * (s * (x * (1 - s) + 1))};
    });
  });
}

Tensor clamp(const Tensor& x, double low, double high) {
  if (!(low <= high))
    throw ValueError("clamp: the lower bound must not be above the upper one; got " + std::to_string(low) + " and " +
                     std::to_string(high));
  if (!is_floating(x.dtype())) {
    const auto is_whole = [](double bound) { return std::isinf(bound) || bound == std::trunc(bound); };
    if (!is_whole(low) || !is_whole(high)) return clamp(to(x, float32), low, high);
    if (x.dtype() == boolean) return clamp(to(x, int64), low, high);
  }
  constexpr double kIntegers = 9223372036854775808.0;  // 2^63
  const auto bound = [](double b) {
    const std::int64_t nearest = b >= kIntegers    ? INT64_MAX
                                 : b <= -kIntegers ? INT64_MIN
                                                   : static_cast<std::int64_t>(b);
    return kernels::Number{b, nearest};
  };
  return record("clamp", kernels::clamp(x.array(), bound(low), bound(high)), {x},
                [x, low, high](const Tensor& g) { return Tensors{where(logical_and(ge(x, low), le(x, high)), g, 0)}; });
}

namespace {

/// d/dx x Phi(x) = Phi(x) + x Phi'(x).
Tensor gelu_derivative(const Tensor& x) {
  return (erf(x * kSqrtHalf) + 1) * 0.5 + x * (exp(square(x) * -0.5) * kInverseSqrtTwoPi);
}
/// The same for Phi(x) = sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
Tensor gelu_tanh_derivative(const Tensor& x) {
  const Tensor v = clamp(x, -30, 30);  // farther outside nothing changes, but x^3 would overflow
  const Tensor phi = sigmoid(v * (square(v) * (2 * kGeluScale * kGeluCubic) + 2 * kGeluScale));
  return phi + v * (phi * (1 - phi)) * (square(v) * (6 * kGeluScale * kGeluCubic) + 2 * kGeluScale);
}

}  // namespace

Tensor gelu(const Tensor& x, GeluApproximation approximate) {
  return real_function(x, [approximate](const Tensor& x) {
    if (approximate == GeluApproximation::tanh)
      return record("gelu_tanh", kernels::gelu_tanh(x.array()), {x}, [x](const Tensor& g) {
        if (!is_recording({g, x})) return Tensors{Tensor(kernels::gelu_tanh_backward(g.array(), x.array()))};
        return Tensors{g * gelu_tanh_derivative(x)};
      });
    return record("gelu", kernels::gelu(x.array()), {x}, [x](const Tensor& g) {
      if (!is_recording({g, x})) return Tensors{Tensor(kernels::gelu_backward(g.array(), x.array()))};
      return Tensors{g * gelu_derivative(x)};
    });
  });
}

Tensor Tensor::exp() const { return tapegrad::exp(*this); }
Tensor Tensor::log() const { return tapegrad::log(*this); }
Tensor Tensor::sqrt() const { return tapegrad::sqrt(*this); }
Tensor Tensor::abs() const { return tapegrad::abs(*this); }
Tensor Tensor::tanh() const { return tapegrad::tanh(*this); }

}  // namespace tapegrad
