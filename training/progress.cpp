#include <tapegrad/training/progress.hpp>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tapegrad {
namespace {

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::min(seconds + 0.5, 1e15));  // whatever is asked for, it is a number
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// What fits into a line of the terminal: of a longer one only the last line would be renewed.
std::string fitting(std::string line) {
  winsize terminal{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0 && terminal.ws_col > 0)
    line.resize(std::min<std::size_t>(line.size(), terminal.ws_col - 1));
  return line;
}

}  // namespace

Progress::Progress(std::int64_t steps_before)
    : steps_before_(steps_before), terminal_(::isatty(STDOUT_FILENO) == 1), start_(Clock::now()), next_(start_) {}

void Progress::update(const ProgressState& state) {
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(terminal_ ? 100 : 5000);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = elapsed / static_cast<double>(std::max<std::int64_t>(state.step - steps_before_, 1));
  const double left = rate * static_cast<double>(state.steps - state.step);
  const std::string speed = state.tokens_per_second > 0 ? fmt::format("{:.0f} tokens/s", state.tokens_per_second)
                                                        : fmt::format("{:.3g} steps/s", 1 / rate);
  const std::string line =
      fmt::format("step {:>{}}/{}  loss {:.4f}  lr {:.2e}  {}  {} left", state.step,
                  fmt::formatted_size("{}", state.steps), state.steps, state.loss, state.lr, speed, duration(left));
  fmt::print("{}{}{}", terminal_ ? "\r\x1b[K" : "", terminal_ ? fitting(line) : line, terminal_ ? "" : "\n");
  line_open_ = terminal_;
  std::fflush(stdout);
}

void Progress::print(const std::string& line) {
  fmt::print("{}{}\n", line_open_ ? "\r\x1b[K" : "", line);
  line_open_ = false;
  std::fflush(stdout);
}

}  // namespace tapegrad
