#include <tapegrad/nn/attention_profiler.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/random.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/core/storage.hpp>
#include <tapegrad/core/threads.hpp>
#include <tapegrad/nn/multi_head_attention.hpp>

namespace tapegrad::nn {
namespace {

using Clock = std::chrono::steady_clock;
using Lengths = std::vector<std::int64_t>;

constexpr double kMb = 1 << 20;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}
double square(std::int64_t n) { return static_cast<double>(n) * static_cast<double>(n); }

void check(const char* operation, const char* what, const Lengths& values, std::size_t least, std::int64_t width) {
  const bool increase = std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
  require(values.size() >= least && values.front() > 0 && increase,
          "AttentionProfiler::{}: {} must be at least {}, positive, and increase; got [{}]", operation, what, least,
          fmt::join(values, ", "));
  require(width > 0, "AttentionProfiler::{}: width must be positive; got {}", operation, width);
}

Timing summary(std::vector<double> runs) {
  std::sort(runs.begin(), runs.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(runs.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, runs.size() - 1);
    return runs[below] + (place - std::floor(place)) * (runs[above] - runs[below]);
  };
  const double mean = std::accumulate(runs.begin(), runs.end(), 0.0) / static_cast<double>(runs.size());
  return {mean, at(0.5), at(0.75) - at(0.25)};
}

struct ThreadsGuard {
  int threads = num_threads();
  ~ThreadsGuard() { set_num_threads(threads); }
};

struct Measured {
  Timing forward;
  Timing backward;
  MeasuredMemory memory;
};

/// Runs of one analysis, and how far it is. Their random numbers are not taken from those of the caller.
class Runs {
 public:
  Runs(const AttentionProfilerOptions& options, double work) : options_(options), work_(work) {}

  /// `work` for each of the configurations is in the unit of the total.
  Measured measure(double work, const Tensors& leaves, const std::function<Tensor()>& forward) {
    std::vector<double> forward_ms, backward_ms;
    Measured result{};
    const std::int64_t runs = options_.warmup + options_.iterations;
    for (std::int64_t i = 0; i < runs; ++i) {
      const std::int64_t before = memory::current();
      memory::reset_peak();
      const auto start = Clock::now();
      const Tensor output = forward();
      const double forward_time = ms_since(start);
      result.memory.activations_mb = static_cast<double>(memory::current() - before) / kMb;
      double backward_time = 0;
      if (output.requires_grad()) {
        const Tensor gradient = ones_like(output);
        const auto middle = Clock::now();
        output.backward(gradient);
        backward_time = ms_since(middle);
      }
      result.memory.peak_mb = static_cast<double>(memory::peak() - before) / kMb;
      for (const Tensor& leaf : leaves) leaf.set_grad({});
      if (i >= options_.warmup) {
        forward_ms.push_back(forward_time);
        backward_ms.push_back(backward_time);
      }
      done_ += work / static_cast<double>(runs);
      if (options_.on_progress) options_.on_progress(std::min(1.0, done_ / work_));
    }
    result.forward = summary(forward_ms);
    result.backward = summary(backward_ms);
    return result;
  }

 private:
  const AttentionProfilerOptions& options_;
  double work_;
  double done_ = 0;
  RandomStateGuard random_;
};

double sum_of_squares(const Lengths& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), 0.0,
                         [](double sum, std::int64_t n) { return sum + square(n); });
}

/// Query, key and value, leaves that want gradients.
Tensors operands(const Shape& shape, Dtype dtype) {
  Tensors result;
  for (int i = 0; i < 3; ++i) result.push_back(randn(shape, dtype).requires_grad_());
  return result;
}

Measured measure_attention(Runs& runs, double work, const Tensors& qkv, bool is_causal, bool need_weights) {
  return runs.measure(work, qkv, [&] {
    AttentionOptions options;
    options.is_causal = is_causal;
    options.need_weights = need_weights;
    return scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], options).output;
  });
}

/// Multiply-adds and bytes in a millisecond.
struct Rates {
  double operations;
  double bytes;
};
Rates measured_rates(Dtype dtype) {
  const NoGradGuard no_grad;
  const AttentionProfilerOptions options;
  Runs runs(options, 2);
  constexpr std::int64_t kSize = 384, kElements = 1 << 22;
  const Tensor matrix = randn({kSize, kSize}, dtype), vector = randn({kElements}, dtype);
  const double product_ms = runs.measure(1, {}, [&] { return matmul(matrix, matrix); }).forward.median_ms;
  const double copy_ms = runs.measure(1, {}, [&] { return clone(vector); }).forward.median_ms;
  return {std::pow(static_cast<double>(kSize), 3) / product_ms,
          2.0 * static_cast<double>(kElements * size_of(dtype)) / copy_ms};
}

/// The slope of log y over log x, by least squares.
double exponent(const std::vector<AttentionSample>& samples) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const AttentionSample& sample : samples) {
    const double u = std::log(static_cast<double>(sample.sequence_length)), v = std::log(sample.time_ms);
    x += u, y += v, xx += u * u, xy += u * v;
  }
  const auto n = static_cast<double>(samples.size());
  return (n * xy - x * y) / (n * xx - x * x);
}

ScalingAnalysis analysed(const std::vector<AttentionSample>& samples, const Rates& rates,
                         const AttentionThresholds& thresholds) {
  const AttentionSample &first = samples.front(), &last = samples.back();
  ScalingFactors factors{};
  factors.sequence_ratio = static_cast<double>(last.sequence_length) / static_cast<double>(first.sequence_length);
  factors.time_scaling_factor = last.time_ms / first.time_ms;
  factors.memory_scaling_factor = last.measured.peak_mb / first.measured.peak_mb;
  factors.attention_memory_scaling = last.attention_matrix_memory_mb / first.attention_matrix_memory_mb;
  factors.theoretical_quadratic = factors.sequence_ratio * factors.sequence_ratio;
  factors.time_vs_quadratic_ratio = factors.time_scaling_factor / factors.theoretical_quadratic;
  factors.fitted_exponent = exponent(samples);
  const double computation_ms = last.theoretical_flops / rates.operations;
  const double memory_ms = 2 * last.measured.activations_mb * kMb / rates.bytes;
  const Bottleneck bottleneck = bottleneck_of(computation_ms, memory_ms, thresholds);
  return {
      factors,
      computation_ms,
      memory_ms,
      bottleneck,
      fmt::format("at length {}, {:.4g} operations take {:.3f} ms at this machine's rate, and {:.2f} MB written and "
                  "read {:.3f} ms; the pass takes {:.3f} ms",
                  last.sequence_length, last.theoretical_flops, computation_ms, last.measured.activations_mb, memory_ms,
                  last.time_ms),
      {last.measured.peak_mb, last.attention_matrix_memory_mb,
       100 * last.attention_matrix_memory_mb / last.total_memory_mb}};
}

}  // namespace

AttentionProfiler::AttentionProfiler(AttentionProfilerOptions options) : options_(std::move(options)) {
  require(options_.iterations >= 1 && options_.warmup >= 0,
          "AttentionProfiler: iterations must be at least 1 and warmup at least 0; got {} and {}", options_.iterations,
          options_.warmup);
  require<DtypeError>(is_floating(options_.dtype), "AttentionProfiler: dtype must be floating; got {}", options_.dtype);
}

std::vector<AttentionTiming> AttentionProfiler::timing(const Lengths& lengths, std::int64_t width,
                                                       std::int64_t num_heads) const {
  check("timing", "lengths", lengths, 1, width);
  Runs runs(options_, sum_of_squares(lengths));
  MultiHeadAttention attention(width, num_heads);
  attention.to(options_.dtype);
  std::vector<AttentionTiming> rows;
  for (const std::int64_t n : lengths) {
    const Tensor x = randn({1, n, width}, options_.dtype);
    const Measured measured = runs.measure(square(n), attention.parameters(), [&] {
      AttendOptions options;
      options.is_causal = options_.is_causal;
      return attention(x, options);
    });
    const double median = measured.forward.median_ms;
    rows.push_back({n, measured.forward, measured.backward, 1000 / median,
                    rows.empty() ? 1 : median / rows.back().forward.median_ms});
  }
  return rows;
}

std::vector<AttentionMemory> AttentionProfiler::memory(const Lengths& lengths, std::int64_t width,
                                                       std::int64_t num_heads) const {
  check("memory", "lengths", lengths, 1, width);
  Runs runs(options_, 2 * sum_of_squares(lengths));
  const double parameters_mb =
      static_cast<double>(MultiHeadAttention(width, num_heads).num_parameters() * size_of(options_.dtype)) / kMb;
  std::vector<AttentionMemory> rows;
  for (const std::int64_t n : lengths) {
    const Tensors qkv = operands({1, num_heads, n, width / num_heads}, options_.dtype);
    AttentionMemory row{};
    row.sequence_length = n;
    row.forward_mb = 4 * square(n) / kMb;
    row.with_gradients_mb = 2 * row.forward_mb;
    row.with_optimizer_mb = row.total_mb = row.with_gradients_mb + 2 * row.forward_mb;
    row.weights_mb = square(n) * static_cast<double>(num_heads * size_of(options_.dtype)) / kMb;
    row.composed = measure_attention(runs, square(n), qkv, options_.is_causal, true).memory;
    row.fused = measure_attention(runs, square(n), qkv, options_.is_causal, false).memory;
    row.parameters_mb = row.gradients_mb = parameters_mb;
    row.optimizer_mb = 2 * parameters_mb;
    rows.push_back(row);
  }
  return rows;
}

AttentionScalingReport AttentionProfiler::profile_scaling(const Lengths& lengths, std::int64_t width) const {
  check("profile_scaling", "lengths", lengths, 2, width);
  Runs runs(options_, sum_of_squares(lengths));
  AttentionScalingReport report;
  const auto bytes = static_cast<double>(size_of(options_.dtype));
  for (const std::int64_t n : lengths) {
    const Tensors qkv = operands({n, width}, options_.dtype);
    const Measured measured = measure_attention(runs, square(n), qkv, options_.is_causal, options_.need_weights);
    AttentionSample sample{};
    sample.sequence_length = n;
    sample.forward = measured.forward;
    sample.backward = measured.backward;
    sample.measured = measured.memory;
    sample.time_ms = measured.forward.median_ms;
    const double seconds = sample.time_ms / 1000;
    sample.theoretical_flops = square(n) * static_cast<double>(2 * width + 1);
    sample.flops_per_second = sample.theoretical_flops / seconds;
    sample.query_memory_mb = static_cast<double>(n * width) * bytes / kMb;
    sample.attention_matrix_memory_mb = square(n) * bytes / kMb;
    sample.total_memory_mb = 3 * sample.query_memory_mb + sample.attention_matrix_memory_mb;
    sample.memory_bandwidth_mbs = sample.total_memory_mb / seconds;
    report.detailed_results.push_back(sample);
  }
  report.scaling_analysis = analysed(report.detailed_results, measured_rates(options_.dtype), options_.thresholds);
  report.optimization_recommendations = recommendations(report, options_);
  return report;
}

std::vector<MultiHeadSample> AttentionProfiler::multi_head_efficiency(const Lengths& num_heads, std::int64_t length,
                                                                      std::int64_t width) const {
  check("multi_head_efficiency", "num_heads", num_heads, 1, std::min(length, width));
  const ThreadsGuard guard;
  const NoGradGuard no_grad;
  Runs runs(options_, 2 * static_cast<double>(num_heads.size()));
  const Tensor x = randn({1, length, width}, options_.dtype);
  std::vector<MultiHeadSample> rows;
  for (const std::int64_t heads : num_heads) {
    MultiHeadAttention attention(width, heads);
    attention.to(options_.dtype);
    double times[2];
    for (const int pass : {0, 1}) {
      set_num_threads(pass == 0 ? 1 : guard.threads);
      times[pass] = runs.measure(1, {}, [&] { return attention(x); }).forward.median_ms;
    }
    const double speed_up = times[0] / times[1];
    rows.push_back({heads, width / heads, 3 * width * width,
                    static_cast<double>(heads * size_of(options_.dtype)) * square(length) / kMb,
                    static_cast<double>(width) * square(length), times[0], times[1], speed_up,
                    speed_up / guard.threads});
  }
  return rows;
}

}  // namespace tapegrad::nn
