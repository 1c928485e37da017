// What AttentionProfiler found, in words and tables.
#include <algorithm>
#include <thread>

#include <tapegrad/core/require.hpp>
#include <tapegrad/core/threads.hpp>
#include <tapegrad/nn/attention_profiler.hpp>

namespace tapegrad::nn {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

double mean_matrix_share(const std::vector<AttentionSample>& samples) {
  double sum = 0;
  for (const AttentionSample& sample : samples) sum += sample.attention_matrix_memory_mb / sample.total_memory_mb;
  return sum / static_cast<double>(samples.size());
}

}  // namespace

std::string_view name_of(Bottleneck bottleneck) {
  return bottleneck == Bottleneck::computation ? "computation"
         : bottleneck == Bottleneck::memory    ? "memory"
                                               : "balanced";
}

Bottleneck bottleneck_of(double computation_ms, double memory_ms, const AttentionThresholds& thresholds) {
  if (computation_ms > thresholds.computation * memory_ms) return Bottleneck::computation;
  if (memory_ms > thresholds.memory * computation_ms) return Bottleneck::memory;
  return Bottleneck::balanced;
}

std::vector<Recommendation> recommendations(const AttentionScalingReport& report,
                                            const AttentionProfilerOptions& options) {
  require(!report.detailed_results.empty(), "recommendations: the report must have samples; got none");
  const AttentionThresholds& limit = options.thresholds;
  const AttentionSample& longest = report.detailed_results.back();
  const ScalingFactors& factors = report.scaling_analysis.sequence_scaling;
  const double share = mean_matrix_share(report.detailed_results);
  const std::int64_t length = longest.sequence_length;
  std::vector<Recommendation> all;
  if (options.need_weights && share > limit.matrix_share)
    all.push_back({"Don't keep the weights: the fused path computes them again in backward, a tile at a time",
                   "AttentionOptions::need_weights = false",
                   fmt::format("the matrix has {:.0f} % of the memory on average, above {:.0f} %", 100 * share,
                               100 * limit.matrix_share)});
  if (longest.measured.peak_mb > limit.peak_mb)
    all.push_back(
        {"Drop what a block saved for its gradients and compute it again", "autograd::checkpoint",
         fmt::format("the measured peak is {:.1f} MB, above {:.1f} MB", longest.measured.peak_mb, limit.peak_mb)});
  if (length >= limit.long_length)
    all.push_back({"Let a query see its neighbours alone, if far ones matter little", "AttentionOptions::window",
                   fmt::format("length {} reaches {}; with 128 keys a query, a row has {:.0f} % of the products",
                               length, limit.long_length, std::min(100.0, 12800 / number(length)))});
  if (length >= limit.long_length && !options.is_causal)
    all.push_back({"Skip the future, if no position may see it", "AttentionOptions::is_causal = true",
                   fmt::format("length {} reaches {}; {:.1f} % of the pairs are left", length, limit.long_length,
                               50 * (1 + 1 / number(length)))});
  if (factors.time_vs_quadratic_ratio > limit.time_vs_quadratic) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const std::string reason =
        fmt::format("time grew {:.1f}-fold, {:.2f} times what is quadratic, above {:.2f}", factors.time_scaling_factor,
                    factors.time_vs_quadratic_ratio, limit.time_vs_quadratic);
    if (num_threads() < cores) all.push_back({"Use all cores", fmt::format("set_num_threads({})", cores), reason});
    if (options.need_weights)
      all.push_back({"Work in tiles that stay in the cache", "AttentionOptions::need_weights = false", reason});
  }
  all.push_back({"Generate with a cache of keys and values", "KVCache",
                 fmt::format("a token after {} others costs {:.4g} operations in place of {:.4g}", length,
                             longest.theoretical_flops / number(length), longest.theoretical_flops)});
  all.push_back(
      {"Let several query heads share a key head", "MultiHeadAttentionOptions::num_kv_heads",
       fmt::format("keys and values of length {} take {:.3f} MB for each head", length, 2 * longest.query_memory_mb)});
  return all;
}

std::string AttentionScalingReport::to_string() const {
  const ScalingFactors& f = scaling_analysis.sequence_scaling;
  const MemoryBreakdown& memory = scaling_analysis.memory_breakdown;
  std::string text = table(detailed_results).to_string();
  text += fmt::format(
      "\nlength x {:.4g}: time x {:.4g}, measured memory x {:.4g}, matrix x {:.4g}; quadratic would be x {:.4g}, and "
      "time is {:.2f} of that\ntime grows as length^{:.2f} over all lengths\nbottleneck: {}; {}\nmemory: {:.2f} MB at "
      "the measured peak; the matrix is {:.2f} MB, {:.1f} % of query, key, value and matrix\n",
      f.sequence_ratio, f.time_scaling_factor, f.memory_scaling_factor, f.attention_memory_scaling,
      f.theoretical_quadratic, f.time_vs_quadratic_ratio, f.fitted_exponent,
      name_of(scaling_analysis.primary_bottleneck), scaling_analysis.bottleneck_reason, memory.peak_total_memory_mb,
      memory.peak_attention_memory_mb, memory.attention_memory_percentage);
  for (const Recommendation& item : optimization_recommendations)
    text += fmt::format("- {} ({}): {}\n", item.advice, item.option, item.reason);
  return text;
}

CostTable table(const std::vector<AttentionTiming>& rows) {
  CostTable result{
      {"length", "mean ms", "forward ms", "forward spread", "backward ms", "backward spread", "forward/s", "scaling"},
      {}};
  for (const AttentionTiming& row : rows)
    result.add(row.sequence_length, row.forward.mean_ms, row.forward.median_ms, row.forward.spread_ms,
               row.backward.median_ms, row.backward.spread_ms, row.operations_per_second, row.scaling);
  return result;
}

CostTable table(const std::vector<AttentionMemory>& rows) {
  CostTable result{{"length", "forward", "+ gradients", "+ optimizer", "total MB", "weights MB", "composed kept",
                    "composed peak", "fused kept", "fused peak"},
                   {},
                   7};
  for (const AttentionMemory& row : rows)
    result.add(row.sequence_length, row.forward_mb, row.with_gradients_mb, row.with_optimizer_mb, row.total_mb,
               row.weights_mb, row.composed.activations_mb, row.composed.peak_mb, row.fused.activations_mb,
               row.fused.peak_mb);
  return result;
}

CostTable table(const std::vector<AttentionSample>& rows) {
  CostTable result{{"length", "forward ms", "backward ms", "flops", "flops/s", "query MB", "matrix MB", "total MB",
                    "MB/s", "peak MB"},
                   {}};
  for (const AttentionSample& row : rows)
    result.add(row.sequence_length, row.time_ms, row.backward.median_ms, row.theoretical_flops, row.flops_per_second,
               row.query_memory_mb, row.attention_matrix_memory_mb, row.total_memory_mb, row.memory_bandwidth_mbs,
               row.measured.peak_mb);
  return result;
}

CostTable table(const std::vector<MultiHeadSample>& rows) {
  CostTable result{{"heads", "width", "parameters", "matrices MB", "flops", "1 thread ms", "all threads ms", "speed-up",
                    "efficiency"},
                   {}};
  for (const MultiHeadSample& row : rows)
    result.add(row.num_heads, row.head_dimension, row.total_parameters, row.attention_memory_mb, row.total_flops,
               row.single_thread_ms, row.effective_compute_time, row.speed_up, row.parallelization_efficiency);
  return result;
}

std::string trade_off(const std::vector<MultiHeadSample>& rows) {
  require(!rows.empty(), "trade_off: there must be samples; got none");
  const auto best = [&](auto key) {
    return *std::max_element(rows.begin(), rows.end(), [&](auto& a, auto& b) { return key(a) < key(b); });
  };
  const MultiHeadSample parallel = best([](auto& row) { return row.speed_up; });
  const MultiHeadSample small = best([](auto& row) { return -row.attention_memory_mb; });
  return fmt::format(
      "best use of threads: {} heads, {:.2f} times as fast as on one; least memory for matrices: {} heads, {:.4f} MB\n"
      "More heads look in more ways with as many parameters; each has a matrix of its own, unless need_weights = "
      "false.\n",
      parallel.num_heads, parallel.speed_up, small.num_heads, small.attention_memory_mb);
}

}  // namespace tapegrad::nn
