#include <tapegrad/core/kernels/optimizer_steps.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/rows.hpp>

namespace tapegrad::core::kernels {
namespace {

/// update(i, count) for batches of elements i ... i + count.
template <class T, class Update>
void for_all(Elements elements, const Update& update) {
  const Update f = update;  // a copy: what it stores can't reach it
  for_each_batch<T>(elements.end - elements.begin, [&](std::int64_t i, auto count) { f(elements.begin + i, count); });
}

template <class T>
xsimd::batch<T> all_lanes(double value) {
  return xsimd::batch<T>(static_cast<T>(value));
}

/// The gradient and its L2 term, which without a decay would make NaN of an infinite parameter.
template <class Batch>
Batch with_decay(const Batch& gradient, const Batch& parameter, const Batch& decay, bool decays) {
  return decays ? gradient + parameter * decay : gradient;
}

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

/// x = f(x) for every element, in parallel.
template <class F>
void change_all(const char* name, const Array& array, const F& f) {
  dispatch_floating(name, array.dtype(), [&]<class T>(Type<T>) {
    parallel_ranges(array.numel(), kStepElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
      for_all<T>({begin, end}, [f, data = array.data<T>()](std::int64_t i, auto count) {
        store(data + i, f(load<T>(data + i, count)), count);
      });
    });
  });
}

}  // namespace

void sgd_step(Elements elements, const Array& parameter, const Array& gradient, const Array& buffer, const Step& step) {
  dispatch_floating("sgd_step", parameter.dtype(), [&]<class T>(Type<T>) {
    using Batch = xsimd::batch<T>;
    T *const to = parameter.data<T>(), *const memory = data_or_null<T>(buffer);
    const T* const from = gradient.data<T>();
    const Batch lr = all_lanes<T>(step.lr), momentum = all_lanes<T>(step.momentum);
    const Batch kept = all_lanes<T>(1 - step.dampening), decay = all_lanes<T>(step.weight_decay);
    const Batch sign = all_lanes<T>(step.maximize ? -1 : 1);
    const bool nesterov = step.nesterov, first = step.first, decays = step.weight_decay != 0;
    for_all<T>(elements, [=](std::int64_t i, auto count) {
      const Batch p = load(to + i, count);
      Batch g = with_decay(load(from + i, count) * sign, p, decay, decays);
      if (memory) {
        const Batch b = first ? g : load(memory + i, count) * momentum + g * kept;
        store(memory + i, b, count);
        g = nesterov ? g + b * momentum : b;
      }
      store(to + i, p - g * lr, count);
    });
  });
}

void adam_step(Elements elements, const Array& parameter, const Array& gradient, const Array& mean, const Array& square,
               const Array& largest, bool decoupled, const Step& step) {
  const auto n = static_cast<double>(step.number);
  dispatch_floating("adam_step", parameter.dtype(), [&]<class T>(Type<T>) {
    using Batch = xsimd::batch<T>;
    T *const to = parameter.data<T>(), *const means = mean.data<T>(), *const squares = square.data<T>();
    T* const maxima = data_or_null<T>(largest);
    const T* const from = gradient.data<T>();
    const Batch step_size = all_lanes<T>(step.lr / (1 - std::pow(step.beta1, n)));
    const Batch root_correction = all_lanes<T>(std::sqrt(1 - std::pow(step.beta2, n)));
    const Batch keep1 = all_lanes<T>(step.beta1), new1 = all_lanes<T>(1 - step.beta1);
    const Batch keep2 = all_lanes<T>(step.beta2), new2 = all_lanes<T>(1 - step.beta2);
    const Batch shrink = all_lanes<T>(decoupled ? 1 - step.lr * step.weight_decay : 1.0);
    const Batch decay = all_lanes<T>(step.weight_decay);
    const Batch sign = all_lanes<T>(step.maximize ? -1 : 1), eps = all_lanes<T>(step.eps);
    const bool decays = !decoupled && step.weight_decay != 0;
    for_all<T>(elements, [=](std::int64_t i, auto count) {
      const Batch p = load(to + i, count);
      const Batch g = with_decay(load(from + i, count) * sign, p, decay, decays);
      const Batch m = load(means + i, count) * keep1 + g * new1;
      Batch v = load(squares + i, count) * keep2 + g * g * new2;
      store(means + i, m, count);
      store(squares + i, v, count);
      if (maxima) {
        v = xsimd::max(v, load(maxima + i, count));
        store(maxima + i, v, count);
      }
      store(to + i, p * shrink - step_size * m / (xsimd::sqrt(v) / root_correction + eps), count);
    });
  });
}

void rmsprop_step(Elements elements, const Array& parameter, const Array& gradient, const Array& square,
                  const Array& buffer, const Array& mean, const Step& step) {
  dispatch_floating("rmsprop_step", parameter.dtype(), [&]<class T>(Type<T>) {
    using Batch = xsimd::batch<T>;
    T *const to = parameter.data<T>(), *const squares = square.data<T>();
    T *const memory = data_or_null<T>(buffer), *const means = data_or_null<T>(mean);
    const T* const from = gradient.data<T>();
    const Batch keep = all_lanes<T>(step.alpha), fresh = all_lanes<T>(1 - step.alpha);
    const Batch decay = all_lanes<T>(step.weight_decay), momentum = all_lanes<T>(step.momentum);
    const Batch lr = all_lanes<T>(step.lr), eps = all_lanes<T>(step.eps);
    const Batch sign = all_lanes<T>(step.maximize ? -1 : 1), zero = all_lanes<T>(0);
    const bool decays = step.weight_decay != 0;
    for_all<T>(elements, [=](std::int64_t i, auto count) {
      const Batch p = load(to + i, count);
      const Batch g = with_decay(load(from + i, count) * sign, p, decay, decays);
      Batch v = load(squares + i, count) * keep + g * g * fresh;
      store(squares + i, v, count);
      if (means) {
        const Batch m = load(means + i, count) * keep + g * fresh;
        store(means + i, m, count);
        v = choose(v - m * m > zero, v - m * m, zero);  // a variance; rounding can make it negative
      }
      Batch change = g / (xsimd::sqrt(v) + eps);
      if (memory) {
        change += load(memory + i, count) * momentum;
        store(memory + i, change, count);
      }
      store(to + i, p - lr * change, count);
    });
  });
}

void lion_step(Elements elements, const Array& parameter, const Array& gradient, const Array& mean, const Step& step) {
  dispatch_floating("lion_step", parameter.dtype(), [&]<class T>(Type<T>) {
    using Batch = xsimd::batch<T>;
    T *const to = parameter.data<T>(), *const means = mean.data<T>();
    const T* const from = gradient.data<T>();
    const Batch keep1 = all_lanes<T>(step.beta1), new1 = all_lanes<T>(1 - step.beta1);
    const Batch keep2 = all_lanes<T>(step.beta2), new2 = all_lanes<T>(1 - step.beta2);
    const Batch shrink = all_lanes<T>(1 - step.lr * step.weight_decay), lr = all_lanes<T>(step.lr);
    const Batch sign = all_lanes<T>(step.maximize ? -1 : 1), zero = all_lanes<T>(0);
    for_all<T>(elements, [=](std::int64_t i, auto count) {
      const Batch g = load(from + i, count) * sign, m = load(means + i, count);
      const Batch c = m * keep1 + g * new1;
      const Batch direction = xsimd::select(c > zero, lr, xsimd::select(c < zero, -lr, c));  // 0 and NaN stay
      store(means + i, m * keep2 + g * new2, count);
      store(to + i, load(to + i, count) * shrink - direction, count);
    });
  });
}

void average_in_place(Elements elements, const Array& to, const Array& from, double keep) {
  dispatch_floating("average_in_place", to.dtype(), [&]<class T>(Type<T>) {
    const xsimd::batch<T> old = all_lanes<T>(keep), fresh = all_lanes<T>(1 - keep);
    for_all<T>(elements, [=, a = to.data<T>(), b = from.data<T>()](std::int64_t i, auto count) {
      store(a + i, load(a + i, count) * old + load<T>(b + i, count) * fresh, count);
    });
  });
}

double norm_power(const Array& array, double p) {
  const std::int64_t size = array.numel();
  std::vector<double> parts(static_cast<std::size_t>((size + kStepElementsPerTask - 1) / kStepElementsPerTask));
  dispatch_floating("norm_power", array.dtype(), [&]<class T>(Type<T>) {
    parallel_ranges(size, kStepElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
      parts[static_cast<std::size_t>(begin / kStepElementsPerTask)] =
          norm_power_of(array.data<T>() + begin, end - begin, p);
    });
  });
  double total = 0;
  for (const double part : parts)
    total = std::isinf(p) && !std::isnan(total + part) ? std::max(part, total) : total + part;
  return total;
}

void scale_in_place(const Array& array, double factor) {
  change_all("scale_in_place", array, [factor]<class T>(const xsimd::batch<T>& x) { return x * all_lanes<T>(factor); });
}

void clamp_in_place(const Array& array, double bound) {
  change_all("clamp_in_place", array, [bound]<class T>(const xsimd::batch<T>& x) {
    const xsimd::batch<T> high = all_lanes<T>(bound), low = all_lanes<T>(-bound);
    return xsimd::select(x > high, high, xsimd::select(x < low, low, x));
  });
}

}  // namespace tapegrad::core::kernels
