#include <tapegrad/core/kernels/optimizer_steps.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <xsimd/xsimd.hpp>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core::kernels {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 14;

/// Reading and writing of whole vectors and of single elements, so that an update is written once for both.
template <class V>
struct Lane;
template <class T>
struct Lane<xsimd::batch<T>> {
  static constexpr auto kWidth = static_cast<std::int64_t>(xsimd::batch<T>::size);
  static xsimd::batch<T> load(const T* from) { return xsimd::batch<T>::load_unaligned(from); }
  static void store(T* to, const xsimd::batch<T>& value) { value.store_unaligned(to); }
};
template <>
struct Lane<float> {
  static float load(const float* from) { return *from; }
  static void store(float* to, float value) { *to = value; }
};
template <>
struct Lane<double> {
  static double load(const double* from) { return *from; }
  static void store(double* to, double value) { *to = value; }
};

/// update(V(), i) for every i in [0, size): V is a vector that starts at i, or the element's type at the end of a
/// range.
template <class T, class Update>
void for_each(std::int64_t size, const Update& update) {
  using Batch = xsimd::batch<T>;
  parallel_ranges(size, kElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t i = begin;
    for (; i + Lane<Batch>::kWidth <= end; i += Lane<Batch>::kWidth) update(Batch(T(0)), i);
    for (; i < end; ++i) update(T(0), i);
  });
}

template <class T>
T* data_or_null(const Array& array) {
  return array.defined() ? array.data<T>() : nullptr;
}

template <class T>
struct Sgd {
  T* parameter;
  const T* gradient;
  T* buffer;
  T lr, momentum, kept, decay, sign;
  bool nesterov, first;

  template <class V>
  void operator()(V, std::int64_t i) const {
    V p = Lane<V>::load(parameter + i);
    V g = Lane<V>::load(gradient + i) * sign + p * decay;
    if (buffer) {
      const V b = first ? g : Lane<V>::load(buffer + i) * momentum + g * kept;
      Lane<V>::store(buffer + i, b);
      g = nesterov ? g + b * momentum : b;
    }
    Lane<V>::store(parameter + i, p - g * lr);
  }
};

template <class T>
struct Adam {
  T* parameter;
  const T* gradient;
  T* mean;
  T* square;
  T* largest;
  T step_size, keep1, new1, keep2, new2, eps, root_correction, shrink, decay, sign;

  template <class V>
  void operator()(V, std::int64_t i) const {
    using std::sqrt, std::max, xsimd::sqrt, xsimd::max;
    V p = Lane<V>::load(parameter + i);
    const V g = Lane<V>::load(gradient + i) * sign + p * decay;
    const V m = Lane<V>::load(mean + i) * keep1 + g * new1;
    V v = Lane<V>::load(square + i) * keep2 + g * g * new2;
    Lane<V>::store(mean + i, m);
    Lane<V>::store(square + i, v);
    if (largest) {
      v = max(v, Lane<V>::load(largest + i));
      Lane<V>::store(largest + i, v);
    }
    Lane<V>::store(parameter + i, p * shrink - step_size * m / (sqrt(v) / root_correction + eps));
  }
};

template <class T>
double norm_power_of(const T* x, std::int64_t size, double p) {
  double total = 0;
  bool poisoned = false;
  if (std::isinf(p)) {
    for (std::int64_t i = 0; i < size; ++i) {
      total = std::max(total, static_cast<double>(std::abs(x[i])));
      poisoned |= std::isnan(x[i]);
    }
    return poisoned ? std::nan("") : total;
  }
  if (p != 2) {
    for (std::int64_t i = 0; i < size; ++i) total += std::pow(std::abs(static_cast<double>(x[i])), p);
    return total;
  }
  constexpr int kSums = 16;  // independent, so that the compiler may use vectors
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= size; i += kSums)
    for (int j = 0; j < kSums; ++j) sums[j] += static_cast<double>(x[i + j]) * static_cast<double>(x[i + j]);
  for (; i < size; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace

void sgd_step(const Array& parameter, const Array& gradient, const Array& buffer, const SgdStep& step) {
  dispatch_floating("sgd_step", parameter.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    for_each<T>(parameter.numel(), Sgd<T>{.parameter = parameter.data<T>(),
                                          .gradient = gradient.data<T>(),
                                          .buffer = data_or_null<T>(buffer),
                                          .lr = static_cast<T>(step.lr),
                                          .momentum = static_cast<T>(step.momentum),
                                          .kept = static_cast<T>(1 - step.dampening),
                                          .decay = static_cast<T>(step.weight_decay),
                                          .sign = static_cast<T>(step.maximize ? -1 : 1),
                                          .nesterov = step.nesterov,
                                          .first = step.first});
  });
}

void adam_step(const Array& parameter, const Array& gradient, const Array& mean, const Array& square,
               const Array& largest, const AdamStep& step) {
  const auto n = static_cast<double>(step.number);
  const double step_size = step.lr / (1 - std::pow(step.beta1, n));
  const double root_correction = std::sqrt(1 - std::pow(step.beta2, n));
  dispatch_floating("adam_step", parameter.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    for_each<T>(parameter.numel(),
                Adam<T>{.parameter = parameter.data<T>(),
                        .gradient = gradient.data<T>(),
                        .mean = mean.data<T>(),
                        .square = square.data<T>(),
                        .largest = data_or_null<T>(largest),
                        .step_size = static_cast<T>(step_size),
                        .keep1 = static_cast<T>(step.beta1),
                        .new1 = static_cast<T>(1 - step.beta1),
                        .keep2 = static_cast<T>(step.beta2),
                        .new2 = static_cast<T>(1 - step.beta2),
                        .eps = static_cast<T>(step.eps),
                        .root_correction = static_cast<T>(root_correction),
                        .shrink = static_cast<T>(step.decoupled ? 1 - step.lr * step.weight_decay : 1.0),
                        .decay = static_cast<T>(step.decoupled ? 0.0 : step.weight_decay),
                        .sign = static_cast<T>(step.maximize ? -1 : 1)});
  });
}

double norm_power(const Array& array, double p) {
  const std::int64_t size = array.numel();
  std::vector<double> parts(static_cast<std::size_t>((size + kElementsPerTask - 1) / kElementsPerTask));
  dispatch_floating("norm_power", array.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    parallel_ranges(size, kElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
      parts[static_cast<std::size_t>(begin / kElementsPerTask)] =
          norm_power_of(array.data<T>() + begin, end - begin, p);
    });
  });
  double total = 0;
  for (const double part : parts)
    total = std::isinf(p) && !std::isnan(total + part) ? std::max(part, total) : total + part;
  return total;
}

void scale_in_place(const Array& array, double factor) {
  dispatch_floating("scale_in_place", array.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* data = array.data<T>();
    for_each<T>(array.numel(), [data, by = static_cast<T>(factor)]<class V>(V, std::int64_t i) {
      Lane<V>::store(data + i, Lane<V>::load(data + i) * by);
    });
  });
}

}  // namespace tapegrad::core::kernels
