// Time and memory of a piece of code.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <tapegrad/core/storage.hpp>

struct Cost {
  double ms;
  double mb;  // at the peak, above what was there before
};

/// The quickest of five runs: what the machine can do, whatever else it does meanwhile.
inline Cost cost(const std::function<void()>& run) {
  run();
  Cost best{1e300, 0};
  for (int i = 0; i < 5; ++i) {
    const std::int64_t before = tapegrad::memory::current();
    tapegrad::memory::reset_peak();
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    best.ms = std::min(best.ms, time.count());
    best.mb = static_cast<double>(tapegrad::memory::peak() - before) / (1 << 20);
  }
  return best;
}
