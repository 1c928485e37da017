// Elementwise kernels: values against the C++ library, strides and broadcasting against plain loops, threads.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <tapegrad/core/error.hpp>
#include <tapegrad/core/kernels/elementwise.hpp>
#include <tapegrad/core/kernels/kernels.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core {
namespace {

using Function = Array (*)(const Array&);

template <class T>
Array array_of(const std::vector<T>& values, const Shape& shape) {
  Array array(shape, dtype_of<T>);
  for (std::size_t i = 0; i < values.size(); ++i) array.data<T>()[i] = values[i];
  return array;
}
template <class T>
Array array_of(const std::vector<T>& values) {
  return array_of(values, {static_cast<std::int64_t>(values.size())});
}
template <class T>
Array random_array(const Shape& shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(0.5, 2);
  Array array(shape, dtype_of<T>);
  for (std::int64_t i = 0; i < array.numel(); ++i) array.data<T>()[i] = static_cast<T>(uniform(engine));
  return array;
}
bool same_bits(const Array& a, const Array& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data<char>(), b.data<char>(), static_cast<std::size_t>(a.numel() * size_of(a.dtype()))) == 0;
}

/// Numbers of every size and sign, and those at the ends.
template <class T>
std::vector<T> many_numbers() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x{0,
                   T(-0.0),
                   1,
                   -1,
                   Limits::infinity(),
                   -Limits::infinity(),
                   Limits::quiet_NaN(),
                   Limits::max(),
                   Limits::lowest(),
                   Limits::min(),
                   Limits::denorm_min(),
                   -Limits::denorm_min()};
  std::mt19937 engine(5);
  std::uniform_real_distribution<double> plain(-12, 12), wide(-800, 800), power(Limits::min_exponent10 - 4, 30);
  for (int i = 0; i < 20000; ++i) {
    x.push_back(static_cast<T>(plain(engine)));
    x.push_back(static_cast<T>(wide(engine)));
    x.push_back(static_cast<T>(std::pow(10.0, power(engine)) * (i % 2 ? 1 : -1)));
  }
  return x;
}

/// |got - want| <= ulps of the wanted number, + absolute.
template <class T>
void expect_function(const char* name, Function kernel, const std::function<long double(long double)>& function,
                     double ulps, double absolute = 0) {
  const std::vector<T> x = many_numbers<T>();
  const Array y = kernel(array_of(x));
  int reported = 0;
  for (std::size_t i = 0; i < x.size() && reported < 5; ++i) {
    const T got = y.data<T>()[i], want = static_cast<T>(function(x[i]));
    const double allowed = absolute + ulps * std::numeric_limits<T>::epsilon() * std::abs(static_cast<double>(want)) +
                           std::numeric_limits<T>::denorm_min();
    const bool right = std::isnan(want) ? std::isnan(got) : got == want || std::abs(got - want) <= allowed;
    EXPECT_TRUE(right) << name << "(" << x[i] << ") = " << got << ", not " << want << " at " << i;
    reported += !right;
  }
}
void expect_function(const char* name, Function kernel, const std::function<long double(long double)>& function,
                     double ulps = 3, double absolute = 0) {
  expect_function<float>(name, kernel, function, ulps, absolute);
  expect_function<double>(name, kernel, function, ulps, absolute);
}

TEST(Elementwise, FunctionsAgreeWithTheStandardLibrary) {
  using L = long double;
  expect_function("exp", kernels::exp, [](L x) { return std::exp(x); });
  expect_function("log", kernels::log, [](L x) { return std::log(x); });
  expect_function("log1p", kernels::log1p, [](L x) { return std::log1p(x); });
  expect_function("sqrt", kernels::sqrt, [](L x) { return std::sqrt(x); });
  expect_function("sin", kernels::sin, [](L x) { return std::sin(x); });
  expect_function("cos", kernels::cos, [](L x) { return std::cos(x); });
  expect_function("tanh", kernels::tanh, [](L x) { return std::tanh(x); });
  expect_function("erf", kernels::erf, [](L x) { return std::erf(x); });
  expect_function("softplus", kernels::softplus,
                  [](L x) { return std::fmax(x, L(0)) + std::log1p(std::exp(-std::fabs(x))) + (x != x ? x : 0); });
  expect_function(
      "floor", kernels::floor, [](L x) { return std::floor(x); }, 0);
  expect_function(
      "ceil", kernels::ceil, [](L x) { return std::ceil(x); }, 0);
  expect_function(
      "round", kernels::round, [](L x) { return std::nearbyint(x); }, 0);
  expect_function(
      "abs", kernels::absolute, [](L x) { return std::fabs(x); }, 0);
  expect_function(
      "sign", kernels::sign, [](L x) { return x != x ? x : L((x > 0) - (x < 0)); }, 0);
  expect_function(
      "relu", kernels::relu, [](L x) { return x <= 0 ? 0 : x; }, 0);
}

TEST(Elementwise, Sigmoid) {
  const auto sigmoid = [](long double x) { return 1 / (1 + std::exp(-x)); };
  // Far to the left the result is 0, which is right to within the smallest normal number.
  expect_function<float>("sigmoid", kernels::sigmoid, sigmoid, 3, 2e-38);
  expect_function<double>("sigmoid", kernels::sigmoid, sigmoid, 3, 1e-307);
}

/// An activation x F(x) and its derivative F(x) + x F'(x), with the kernels for them.
struct Activation {
  const char* name;
  Function value, slope;
  long double (*distribution)(long double);
  long double (*density)(long double);
};
template <Array (*kBackward)(const Array&, const Array&)>
Array slope(const Array& x) {
  const Array ones(x.shape(), x.dtype());
  kernels::fill(ones, 1);
  return kBackward(ones, x);
}
long double logistic(long double x) { return 1 / (1 + std::exp(-x)); }
const long double kGeluScale = std::sqrt(2 / std::acos(-1.0L));
long double gelu_argument(long double x) { return 2 * kGeluScale * (x + 0.044715L * x * x * x); }
const Activation kActivations[] = {
    {"silu", kernels::silu, slope<kernels::silu_backward>, logistic,
     [](long double x) { return logistic(x) * logistic(-x); }},
    {"gelu", kernels::gelu, slope<kernels::gelu_backward>,
     [](long double x) { return std::erfc(-x * std::sqrt(0.5L)) / 2; },
     [](long double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L)); }},
    {"gelu_tanh", kernels::gelu_tanh, slope<kernels::gelu_tanh_backward>,
     [](long double x) { return logistic(gelu_argument(x)); },
     [](long double x) {
       const long double u = gelu_argument(x);
       return logistic(u) * logistic(-u) * 2 * kGeluScale * (1 + 3 * 0.044715L * x * x);
     }},
};

/// Bounds in units of the type's epsilon: of values, relative to max(1, |x|) and for x >= -6 to the value; of slopes,
/// absolute.
template <class T>
void expect_activation(const Activation& f, double absolute, double relative, double of_slope) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x;
  for (int i = 0; i <= 200000; ++i) x.push_back(static_cast<T>(-20 + i * 2e-4));
  for (const T number : many_numbers<T>())
    if (std::abs(number) < 1000) x.push_back(number);  // false for NaN
  const Array y = f.value(array_of(x)), dy = f.slope(array_of(x));
  int reported = 0;
  for (std::size_t i = 0; i < x.size() && reported < 5; ++i) {
    const long double p = f.distribution(x[i]), d = f.density(x[i]), value = x[i] * p, slope = p + x[i] * d;
    const long double allowed = absolute * Limits::epsilon() * std::fmax(1.0L, std::fabs(1.0L * x[i]));
    const long double of_value = relative * Limits::epsilon() * std::fabs(value) + Limits::min();
    const long double error = std::fabs(y.data<T>()[i] - value);
    const bool right = error <= allowed && (x[i] < -6 || error <= of_value) &&
                       std::fabs(dy.data<T>()[i] - slope) <= of_slope * Limits::epsilon();
    EXPECT_TRUE(right) << f.name << "(" << x[i] << ") = " << y.data<T>()[i] << ", not " << value << "; slope "
                       << dy.data<T>()[i] << ", not " << slope;
    reported += !right;
  }
}

TEST(Elementwise, ActivationsKeepTheirDigits) {
  for (const Activation& f : kActivations) {
    // The tail of gelu_tanh is an exponential of a large rounded number; float64 rounds z^2, too.
    const double relative = f.value == kernels::gelu_tanh ? 40 : 8;
    expect_activation<float>(f, 1.5, relative, 1.5);
    expect_activation<double>(f, 1.5, 40, 1.5);
  }
}

template <class T>
void expect_limits(const Activation& f) {
  using Limits = std::numeric_limits<T>;
  const Array x = array_of<T>(
      {Limits::infinity(), -Limits::infinity(), Limits::lowest(), -1000, Limits::max(), 1000, 0, Limits::quiet_NaN()});
  const Array y = f.value(x), dy = f.slope(x);
  const T values[] = {Limits::infinity(), 0, 0, 0, Limits::max(), 1000, 0}, slopes[] = {1, 0, 0, 0, 1, 1, 0.5};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(y.data<T>()[i], values[i]) << f.name << " of " << x.data<T>()[i];
    EXPECT_EQ(dy.data<T>()[i], slopes[i]) << f.name << "' of " << x.data<T>()[i];
  }
  EXPECT_TRUE(std::isnan(y.data<T>()[7]) && std::isnan(dy.data<T>()[7])) << f.name;
}

TEST(Elementwise, ActivationsHaveTheirLimits) {
  for (const Activation& f : kActivations) {
    expect_limits<float>(f);
    expect_limits<double>(f);
  }
}

TEST(Elementwise, PowIsThatOfTheStandardLibrary) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x{0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, inf, -inf, nan, 1e30, 2.5};
  const auto n = static_cast<std::int64_t>(x.size());
  const Array y = kernels::pow(array_of(x, {n, 1}), array_of(x, {n}));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const double got = y.data<double>()[i * n + j], want = std::pow(x[i], x[j]);
      EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << x[i] << "^" << x[j] << " = " << got;
    }
  const Array powers =
      kernels::pow(array_of<std::int64_t>({2, -3, 1, -1, 0}), array_of<std::int64_t>({10, 3, -4, -3, 0}));
  const std::int64_t want[] = {1024, -27, 1, -1, 1};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(powers.data<std::int64_t>()[i], want[i]);
}

TEST(Elementwise, NaNGoesThroughMaximumMinimumAndClamp) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array a = array_of<float>({1, nan, 2, nan}), b = array_of<float>({2, 1, nan, nan});
  for (const Array& y : {kernels::maximum(a, b), kernels::minimum(a, b), kernels::clamp(a, {3, 3}, {4, 4})}) {
    EXPECT_FALSE(std::isnan(y.data<float>()[0]));
    EXPECT_TRUE(std::isnan(y.data<float>()[1]));
    EXPECT_TRUE(std::isnan(y.data<float>()[3]));
  }
  EXPECT_TRUE(std::isnan(kernels::maximum(a, b).data<float>()[2]));
}

/// Every way in which an operand can lie in memory, against a plain loop.
TEST(Elementwise, OperandsOfAnyStrides) {
  for (const Shape& shape : {Shape{3, 5, 7}, Shape{40, 33, 50}, Shape{1, 1, 1}, Shape{2, 3, 2000}, Shape{700, 3, 1}}) {
    const std::int64_t p = shape[0], q = shape[1], r = shape[2];
    const Array base = random_array<float>(shape, 1);
    const Array others[] = {
        random_array<float>(shape, 2),
        random_array<float>({r}, 3),
        random_array<float>({}, 4),
        random_array<float>({p, q, 1}, 5),
        random_array<float>({p, 1, 1}, 6),
        random_array<float>({1, q, r}, 7),
        random_array<float>({p, 1, r}, 8),
        random_array<float>({q, 1}, 9),
        random_array<float>({r, q, p}, 10).permuted({2, 1, 0}),
        random_array<float>({p, q, 2 * r}, 11).sliced(2, 1, r, 2),
        random_array<float>({p, q, r}, 12).sliced(2, r - 1, r, -1),
        random_array<float>({q, r}, 13).expanded(shape),
    };
    int kind = 0;
    for (const Array& other : others) {
      const Array y = kernels::subtract(base, other), whole = other.expanded(shape), z = kernels::subtract(other, base);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < y.numel(); ++i) {
        const Strides& s = whole.strides();
        const float b = whole.data<float>()[i / (q * r) * s[0] + i / r % q * s[1] + i % r * s[2]];
        wrong += y.data<float>()[i] != base.data<float>()[i] - b || z.data<float>()[i] != -y.data<float>()[i];
      }
      EXPECT_EQ(wrong, 0) << "operand " << kind << " of shape " << shape.to_string();
      ++kind;
    }
  }
}

TEST(Elementwise, ShapesThatDoNotFitNameTheOperation) {
  try {
    kernels::multiply(random_array<float>({2, 3}, 1), random_array<float>({4}, 2));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("multiply"), std::string::npos) << error.what();
  }
  EXPECT_THROW(kernels::exp(array_of<std::int64_t>({1})), DtypeError);
  EXPECT_EQ(kernels::add(random_array<float>({0, 3}, 1), random_array<float>({3}, 2)).shape(), (Shape{0, 3}));
}

TEST(Elementwise, AValueDoesNotDependOnItsPosition) {
  const Array x = random_array<float>({67}, 1);
  for (const Function f : {kernels::exp, kernels::gelu, kernels::tanh, kernels::silu}) {
    const Array whole = f(x);
    for (std::int64_t begin = 0; begin < 67; ++begin)
      EXPECT_EQ(f(x.sliced(0, begin, 67 - begin, 1)).data<float>()[0], whole.data<float>()[begin]);
  }
}

TEST(Elementwise, EveryNumberOfThreadsGivesTheSameBits) {
  const Array x = random_array<float>({301, 513}, 1), bias = random_array<float>({513}, 2);
  const int before = num_threads();
  set_num_threads(1);
  const Array sum = kernels::add(x, bias), gelu = kernels::gelu_backward(x, sum);
  set_num_threads(3);
  EXPECT_TRUE(same_bits(sum, kernels::add(x, bias)));
  EXPECT_TRUE(same_bits(gelu, kernels::gelu_backward(x, sum)));
  set_num_threads(before);
}

TEST(Elementwise, WritingInPlace) {
  const Array x = random_array<double>({5, 7}, 1), y = x.copy();
  kernels::add_in_place(y, x.copy());
  kernels::add_in_place(y, random_array<double>({7, 5}, 1).transposed(0, 1));
  EXPECT_EQ(y.data<double>()[3], 2 * x.data<double>()[3] + x.data<double>()[15]);
  kernels::fill(y.sliced(1, 2, 1, 1), 9);
  EXPECT_EQ(y.data<double>()[2], 9);
  EXPECT_NE(y.data<double>()[3], 9);
  kernels::fill(y, -1);
  EXPECT_EQ(y.data<double>()[3], -1);
}

}  // namespace
}  // namespace tapegrad::core
