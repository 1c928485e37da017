// What this machine can do when nothing is wasted, measured in this process: bytes moved by plain loops, at sizes from
// those of the caches up to memory's, and products by one BLAS call on each thread. The loops run on threads of their
// own, so that a floor holds nothing of the library's team.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include <tapegrad/core/blas.hpp>
#include <tapegrad/tapegrad.hpp>

#include "timing.hpp"

namespace bench {

/// The milliseconds that `pass(thread)` takes on so many threads at once, the slowest of them; the quietest of rounds.
template <class F>
double quietest_ms(int threads, int rounds, const F& pass) {
  std::vector<double> times(static_cast<std::size_t>(threads * rounds));
  std::atomic<int> arrived{0};
  const auto member = [&](int thread) {
    pass(thread);
    for (int round = 0; round < rounds; ++round) {
      arrived.fetch_add(1);
      while (arrived.load() < (round + 1) * threads) std::this_thread::yield();
      const double start = now_ms();
      pass(thread);
      times[static_cast<std::size_t>(round * threads + thread)] = now_ms() - start;
    }
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(member, thread);
    member(0);
  }
  double quietest = times[0] * 1e9;
  for (auto round = times.begin(); round != times.end(); round += threads)
    quietest = std::min(quietest, *std::max_element(round, round + threads));
  return quietest;
}

/// How a pass moves its bytes: a = b + s c (two arrays read, one written), a = a + s b (the same in place), or reading
/// alone.
enum class Pass { triad, in_place, read };
inline constexpr Pass kPasses[] = {Pass::triad, Pass::in_place, Pass::read};
inline const char* name_of(Pass pass) {
  return pass == Pass::triad ? "a = b + s c" : pass == Pass::in_place ? "a = a + s b" : "read";
}

/// One pass over `count` elements.
inline std::uint32_t move_once(Pass pass, float* a, const float* b, const float* c, std::int64_t count) {
  std::uint32_t sum = 0;
  if (pass == Pass::triad) {
    for (std::int64_t i = 0; i < count; ++i) a[i] = b[i] + 0.5F * c[i];
  } else if (pass == Pass::in_place) {
    for (std::int64_t i = 0; i < count; ++i) a[i] = a[i] * 0.5F + b[i];
  } else {  // as integers, which compilers may add in any order and so in vectors; in four streams
    const auto* words = reinterpret_cast<const std::uint32_t*>(a);
    const std::int64_t part = count / 4;
    for (std::int64_t i = 0; i < part; ++i)
      sum += (words[i] + words[i + part]) + (words[i + 2 * part] + words[i + 3 * part]);
  }
  asm volatile("" ::: "memory");  // every pass is made
  return sum;
}

/// GB/s of a pass over `bytes` in all, on so many threads.
inline double measure_speed(Pass pass, double bytes, int threads) {
  const double bytes_each = pass == Pass::read ? 4 : 12;
  const auto part = static_cast<std::int64_t>(bytes / bytes_each / threads) / 4 * 4;
  const std::int64_t count = part * threads;
  const tapegrad::Tensor memory[] = {tapegrad::zeros({count}), tapegrad::ones({count}), tapegrad::ones({count})};
  float *a = memory[0].mutable_array().data<float>(), *b = memory[1].mutable_array().data<float>(),
        *c = memory[2].mutable_array().data<float>();
  const int repeats = static_cast<int>(std::clamp(1.6e7 / bytes, 1.0, 1000.0));
  std::atomic<std::uint32_t> sink{0};
  const double ms = quietest_ms(threads, 9, [&](int thread) {
    const std::int64_t first = thread * part;
    std::uint32_t sum = 0;
    for (int repeat = 0; repeat < repeats; ++repeat) sum += move_once(pass, a + first, b + first, c + first, part);
    sink += sum;
  });
  return static_cast<double>(count) * bytes_each * repeats / ms / 1e6;
}

/// GFLOP/s of single-threaded products on so many threads at once, each with matrices of its own; the best of sizes.
inline double measure_products(int threads) {
  const tapegrad::NoGradGuard no_grad;
  double best = 0;
  for (const std::int64_t size : {256, 512, 1024}) {
    std::vector<tapegrad::Tensor> factors;
    for (int thread = 0; thread < threads; ++thread) factors.push_back(tapegrad::randn({size, size}));
    tapegrad::set_num_threads(1);
    const int repeats = static_cast<int>(std::max<std::int64_t>(1, 1024 / size * 1024 / size));
    const double ms = quietest_ms(threads, 9, [&](int thread) {
      const tapegrad::NoGradGuard no_grad_here;
      const tapegrad::Tensor& factor = factors[static_cast<std::size_t>(thread)];
      for (int repeat = 0; repeat < repeats; ++repeat) factor.matmul(factor);
    });
    best = std::max(best, 2.0 * std::pow(static_cast<double>(size), 3) * threads * repeats / ms / 1e6);
  }
  return best;
}

/// What must be done at the least.
struct Work {
  double bytes = 0;  // inputs read once and results written once
  double flops = 0;  // of matrix products, 2 m n k each
  Pass pass = Pass::triad;
};

/// The floors on 1 ... most threads.
class Floors {
 public:
  static constexpr int kMostThreads = 2;

  Floors() {
    for (int threads = 1; threads <= kMostThreads; ++threads) {
      products_[threads - 1] = measure_products(threads);
      for (const Pass pass : kPasses)
        for (int size = 0; size < kSizes; ++size)
          speeds_[series(pass, threads)][static_cast<std::size_t>(size)] = measure_speed(pass, bytes_of(size), threads);
    }
  }

  /// Bytes at the speed of their size, or products at the best speed: what takes longer.
  double ms(const Work& work, int threads) const {
    const double moving = work.bytes == 0 ? 0 : work.bytes / speed(work.pass, work.bytes, threads) / 1e6;
    return std::max(moving, work.flops / products_[static_cast<std::size_t>(threads - 1)] / 1e6);
  }

  /// To the error output, beside Google Benchmark's own words on the machine.
  void print() const {
    fmt::print(stderr, "Floors: GB/s of bytes read and written, by all bytes of a pass; products, {}\n{:24}",
               tapegrad::blas_description(), "");
    for (int size = 0; size < kSizes; ++size) fmt::print(stderr, "{:>8}", label(bytes_of(size)));
    for (int threads = 1; threads <= kMostThreads; ++threads) {
      for (const Pass pass : kPasses) {
        fmt::print(stderr, "\n{} thread(s), {:11}", threads, name_of(pass));
        for (const double speed : speeds_[series(pass, threads)]) fmt::print(stderr, "{:8.1f}", speed);
      }
      fmt::print(stderr, "\n{} thread(s), products {:.1f} GFLOP/s", threads,
                 products_[static_cast<std::size_t>(threads - 1)]);
    }
    fmt::print(stderr, "\n\n");
  }

 private:
  static constexpr int kSizes = 13;
  using Speeds = std::array<double, kSizes>;

  static double bytes_of(int size) { return std::ldexp(1.0, 16 + size); }  // 64 KiB ... 256 MiB
  static std::string label(double bytes) {
    return bytes < 1048576 ? fmt::format("{:.0f} KiB", bytes / 1024) : fmt::format("{:.0f} MiB", bytes / 1048576);
  }

  static std::size_t series(Pass pass, int threads) {
    return static_cast<std::size_t>(3 * (threads - 1) + static_cast<int>(pass));
  }

  /// Between the measured sizes on a straight line over the logarithm of the size.
  double speed(Pass pass, double bytes, int threads) const {
    const double place = std::clamp(std::log2(bytes) - 16, 0.0, kSizes - 1.0);
    const auto below = static_cast<std::size_t>(std::min(place, kSizes - 2.0));
    const double share = place - static_cast<double>(below);
    const Speeds& measured = speeds_[series(pass, threads)];
    return measured[below] * (1 - share) + measured[below + 1] * share;
  }

  std::array<double, kMostThreads> products_{};
  std::array<Speeds, 3 * kMostThreads> speeds_{};
};

}  // namespace bench
