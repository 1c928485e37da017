// What attention costs, measured: time forward and backward, memory, and how both grow with the length.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <tapegrad/nn/attention_plan.hpp>

namespace tapegrad::nn {

/// Over the timed runs; the spread is the distance between the quartiles.
struct Timing {
  double mean_ms;
  double median_ms;
  double spread_ms;
};

/// A step of MultiHeadAttention.
struct AttentionTiming {
  std::int64_t sequence_length;
  Timing forward;
  Timing backward;
  double operations_per_second;  // forward passes, by the median
  double scaling;                // forward median over that of the length before; 1 for the first
};

/// By memory::peak() and memory::current(), over what was there before: all threads' arrays count.
struct MeasuredMemory {
  double activations_mb;  // held between forward and backward, with the output
  double peak_mb;         // of the whole step, with the gradients
};
struct AttentionMemory {
  std::int64_t sequence_length;
  /// The textbook's rule for one n x n matrix: 4 n^2 bytes, twice that with its gradient, and Adam's two moments on top
  /// of these. No such moments exist: see parameters.
  double forward_mb;
  double with_gradients_mb;
  double with_optimizer_mb;
  double total_mb;
  /// The weights of all heads, by formula, and a step of scaled dot-product attention, measured on both paths.
  double weights_mb;
  MeasuredMemory composed;
  MeasuredMemory fused;
  /// Of the layer around it, counted by parameters; they don't grow with the length.
  double parameters_mb;
  double gradients_mb;
  double optimizer_mb;
};

/// Scaled dot-product attention of one head.
struct AttentionSample {
  std::int64_t sequence_length;
  double time_ms;  // forward, median
  Timing forward;
  Timing backward;
  double theoretical_flops;  // n^2 d + n^2 + n^2 d
  double flops_per_second;
  double query_memory_mb;
  double attention_matrix_memory_mb;  // by formula
  double total_memory_mb;             // query, key, value and matrix, by formula
  double memory_bandwidth_mbs;        // total over time
  MeasuredMemory measured;
};

/// From the smallest to the largest length.
struct ScalingFactors {
  double sequence_ratio;
  double time_scaling_factor;
  double memory_scaling_factor;
  double attention_memory_scaling;
  double theoretical_quadratic;
  double time_vs_quadratic_ratio;
  double fitted_exponent;  // least squares of log time over log length, all lengths
};
enum class Bottleneck { computation, memory, balanced };
std::string_view name_of(Bottleneck bottleneck);
struct MemoryBreakdown {
  double peak_total_memory_mb;  // measured
  double peak_attention_memory_mb;
  double attention_memory_percentage;
};
struct ScalingAnalysis {
  ScalingFactors sequence_scaling;
  /// What the longest sample's forward pass would take at the rates of this machine, measured by a matrix product and a
  /// copy: its operations, and its measured bytes written and read once each.
  double computation_ms;
  double memory_ms;
  Bottleneck primary_bottleneck;
  std::string bottleneck_reason;
  MemoryBreakdown memory_breakdown;
};
/// What could be done, the option that does it, and the numbers that say so.
struct Recommendation {
  std::string advice;
  std::string option;
  std::string reason;
};
struct AttentionScalingReport {
  std::vector<AttentionSample> detailed_results;
  ScalingAnalysis scaling_analysis;
  std::vector<Recommendation> optimization_recommendations;

  /// All of it as text.
  std::string to_string() const;
};

/// A forward pass of MultiHeadAttention.
struct MultiHeadSample {
  std::int64_t num_heads;
  std::int64_t head_dimension;
  std::int64_t total_parameters;  // of the three input projections: 3 d^2
  double attention_memory_mb;     // heads 4 n^2, by formula
  double total_flops;             // heads n^2 head_dimension: the scores
  double single_thread_ms;
  double effective_compute_time;      // ms, on all threads
  double speed_up;                    // the one over the other
  double parallelization_efficiency;  // speed_up over threads
};

struct AttentionThresholds {
  /// One side of the bottleneck takes so much longer than the other, or they are balanced.
  double computation = 1.2;
  double memory = 1.5;
  /// When to recommend something: measured peak, length, matrix's share of memory, time over quadratic growth.
  double peak_mb = 100;
  std::int64_t long_length = 512;
  double matrix_share = 0.6;
  double time_vs_quadratic = 1.5;
};
struct AttentionProfilerOptions {
  std::int64_t iterations = 5;
  std::int64_t warmup = 2;
  Dtype dtype = float32;
  bool is_causal = false;
  /// Which path profile_scaling measures: with the weights, or fused.
  bool need_weights = true;
  AttentionThresholds thresholds = {};
  /// Called after each run with how much of the analysis is done, by operations, from 0 to 1.
  std::function<void(double done)> on_progress = {};
};

/// Each analysis returns what it found and prints nothing. Lengths and heads must be positive and increase, else
/// ValueError. It measures the process as it is: other threads' work shows in time and memory.
class AttentionProfiler {
 public:
  explicit AttentionProfiler(AttentionProfilerOptions options = {});

  std::vector<AttentionTiming> timing(const std::vector<std::int64_t>& lengths = {32, 64, 128, 256},
                                      std::int64_t width = 64, std::int64_t num_heads = 8) const;
  std::vector<AttentionMemory> memory(const std::vector<std::int64_t>& lengths = {128, 256, 512, 1024},
                                      std::int64_t width = 128, std::int64_t num_heads = 8) const;
  /// At least two lengths.
  AttentionScalingReport profile_scaling(const std::vector<std::int64_t>& lengths = {64, 128, 256, 512},
                                         std::int64_t width = 64) const;
  /// Sets the number of threads to one and back while it measures.
  std::vector<MultiHeadSample> multi_head_efficiency(const std::vector<std::int64_t>& num_heads = {1, 2, 4, 8},
                                                     std::int64_t length = 128, std::int64_t width = 512) const;

 private:
  AttentionProfilerOptions options_;
};

Bottleneck bottleneck_of(double computation_ms, double memory_ms, const AttentionThresholds& thresholds = {});
/// What the report's numbers call for, and what generation always does.
std::vector<Recommendation> recommendations(const AttentionScalingReport& report,
                                            const AttentionProfilerOptions& options);

CostTable table(const std::vector<AttentionTiming>& rows);
CostTable table(const std::vector<AttentionMemory>& rows);
CostTable table(const std::vector<AttentionSample>& rows);
CostTable table(const std::vector<MultiHeadSample>& rows);
/// Which number of heads gains most from threads, and which takes the least memory.
std::string trade_off(const std::vector<MultiHeadSample>& rows);

}  // namespace tapegrad::nn

template <>
struct fmt::formatter<tapegrad::nn::AttentionScalingReport> : tapegrad::ToStringFormatter {};
