// Repeats a piece of work for a while and reports the median and the quietest round.
#pragma once
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace bench {

struct Rounds {
  double median_ms;
  double min_ms;
  int count;
};

inline double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Two rounds to warm up, then at least `least` rounds and at least `budget_ms` milliseconds.
template <class F>
Rounds repeat(F&& work, int least, double budget_ms) {
  work();
  work();
  std::vector<double> times;
  for (const double end = now_ms() + budget_ms; static_cast<int>(times.size()) < least || now_ms() < end;) {
    const double start = now_ms();
    work();
    times.push_back(now_ms() - start);
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front(), static_cast<int>(times.size())};
}

/// The most memory that this process has had so far, in MB.
inline double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace bench
