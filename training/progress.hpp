// How a run is going: one line that renews itself on a terminal, plain lines now and then elsewhere.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace tapegrad {

struct ProgressState {
  std::int64_t step;  // steps done
  std::int64_t steps;
  double loss;
  double lr;
  double tokens_per_second = 0;  // 0: steps per second are shown
};

class Progress {
 public:
  /// For a run that goes on after so many steps.
  explicit Progress(std::int64_t steps_before = 0);
  /// Shows the state if the last showing is long enough ago.
  void update(const ProgressState& state);
  /// A line that stays.
  void print(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t steps_before_;
  bool terminal_;
  bool line_open_ = false;
  Clock::time_point start_;
  Clock::time_point next_;
};

}  // namespace tapegrad
