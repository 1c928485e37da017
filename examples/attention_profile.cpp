// Everything that nn::AttentionProfiler measures, as tables or as CSV, with a line on stderr that says how far it is.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"

namespace nn = tapegrad::nn;

namespace {

using Clock = std::chrono::steady_clock;
using Lengths = std::vector<std::int64_t>;

/// One line on a terminal, renewed ten times a second; elsewhere one line when an analysis is done.
class ProgressLine {
 public:
  void begin(std::string title) {
    title_ = std::move(title);
    runs_ = 0;
    start_ = next_ = Clock::now();
  }
  void update(double done) {
    ++runs_;
    const auto now = Clock::now();
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(runs_) / std::max(elapsed, 1e-9);
    if (terminal_ && now >= next_) {
      next_ = now + std::chrono::milliseconds(100);
      // what is wider than the terminal is cut, not wrapped
      fmt::print(stderr, "\r\x1b[K\x1b[?7l{}: {:.0f} %  {:.0f} runs/s  {:.0f} s left\x1b[?7h", title_, 100 * done, rate,
                 elapsed * (1 - done) / done);
    }
    if (done > 1 - 1e-9)
      terminal_ ? fmt::print(stderr, "\r\x1b[K")
                : fmt::print(stderr, "{}: {} runs, {:.0f} runs/s\n", title_, runs_, rate);
    std::fflush(stderr);
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  std::string title_;
  std::int64_t runs_ = 0;
  Clock::time_point start_, next_;
};

struct Settings {
  bool quick = false;
  bool csv = false;
  bool fused = false;
  nn::AttentionProfilerOptions profiler;
};

void profile(Settings settings) {
  ProgressLine progress;
  settings.profiler.need_weights = !settings.fused;
  settings.profiler.on_progress = [&](double done) { progress.update(done); };
  const nn::AttentionProfiler profiler(settings.profiler);
  const auto show = [&](const char* title, const auto& rows) {
    const nn::CostTable result = nn::table(rows);
    fmt::print("{}\n{}\n", title, settings.csv ? result.csv() : result.to_string());
    std::fflush(stdout);
  };
  const auto lengths = [&](Lengths all) {
    if (settings.quick) all = {16, 32, 64};
    return all;
  };

  fmt::print("{} threads, {}\n\n", tapegrad::num_threads(), settings.profiler.dtype);
  show("Complexity of one head of width 64, counted", nn::attention_complexity());
  progress.begin("timing");
  const auto timing = profiler.timing(lengths({32, 64, 128, 256}));
  show("Time of MultiHeadAttention(64, 8), measured", timing);
  progress.begin("memory");
  const auto memory = profiler.memory(lengths({128, 256, 512, 1024}));
  show("Memory of 8 heads of width 16 in MB: the textbook's rule for one matrix, all heads' weights, and measured",
       memory);
  fmt::print("The layer's parameters take {:.3f} MB, their gradients {:.3f}, Adam's moments {:.3f}, at any length.\n\n",
             memory[0].parameters_mb, memory[0].gradients_mb, memory[0].optimizer_mb);
  progress.begin("scaling");
  const auto scaling = profiler.profile_scaling(lengths({64, 128, 256, 512}));
  if (settings.csv)
    show("Scaling of one head of width 64", scaling.detailed_results);
  else
    fmt::print("Scaling of one head of width 64, measured\n{}\n", scaling);
  progress.begin("heads");
  const auto heads = profiler.multi_head_efficiency({1, 2, 4, 8}, settings.quick ? 32 : 128, settings.quick ? 64 : 512);
  show("MultiHeadAttention by number of heads, forward", heads);
  fmt::print("{}\n", nn::trade_off(heads));

  for (const std::int64_t length : {1024, 2048})
    fmt::print("One head, length {}\n{}\n", length, nn::plan_attention({.length = length, .width = 64}));
  fmt::print("GPT-3 on paper: 96 layers of 96 heads, width 12288, length 2048\n{}",
             nn::plan_attention({.layers = 96, .heads = 96, .length = 2048, .width = 12288}));
}

}  // namespace

int main(int argc, char** argv) {
  arguments::Program program("attention_profile", "What attention costs on this machine");
  Settings settings;
  program.add_flag("--quick", settings.quick, "short lengths, for a first look");
  program.add_flag("--csv", settings.csv, "tables as CSV");
  program.add_flag("--fused", settings.fused, "scaling of the fused path, without weights");
  program.add_flag("--causal", settings.profiler.is_causal, "causal attention");
  program.add("--iterations", settings.profiler.iterations, arguments::Whole{1}, "timed runs of each measurement");
  program.add("--warmup", settings.profiler.warmup, arguments::Whole{0}, "runs before these");
  return program.run(argc, argv, [&] {
    profile(settings);
    return true;
  });
}
