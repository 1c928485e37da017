// What attention costs: the counts are exact, and of what is measured only that which must hold on any machine.
#include <gtest/gtest.h>

#include <cmath>
#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tapegrad {
namespace {

using nn::AttentionProfiler;
using nn::AttentionProfilerOptions;
using nn::Bottleneck;

constexpr double kMb = 1 << 20;
const AttentionProfilerOptions kQuick = {.iterations = 2, .warmup = 1};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(AttentionComplexityTest, CountsAreExact) {
  const auto rows = nn::attention_complexity();
  const std::vector<std::array<std::int64_t, 3>> expected = {{16, 256, 33'024},
                                                             {32, 1'024, 132'096},
                                                             {64, 4'096, 528'384},
                                                             {128, 16'384, 2'113'536},
                                                             {256, 65'536, 8'454'144}};
  ASSERT_EQ(rows.size(), expected.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].sequence_length, expected[i][0]);
    EXPECT_EQ(rows[i].matrix_elements, expected[i][1]);
    EXPECT_EQ(rows[i].operations, expected[i][2]);
    EXPECT_EQ(rows[i].matrix_kb, std::pow(4.0, static_cast<double>(i)));
    if (i > 0) {
      EXPECT_EQ(rows[i].operations, 4 * rows[i - 1].operations);
    }
  }
  EXPECT_EQ(nn::attention_complexity({1024})[0].matrix_kb / 1024, 4.0);
  EXPECT_TRUE(contains(error_of([] { nn::attention_complexity({16, 0}); }), "got length 0 and width 64"));
  EXPECT_TRUE(contains(error_of([] { nn::attention_complexity({4'000'000'000}); }), "must be below 2^63"));
  EXPECT_THROW(nn::attention_complexity({16}, std::numeric_limits<std::int64_t>::max()), ValueError);
}

TEST(AttentionComplexityTest, TablesPrintAndAreReadByOtherPrograms) {
  const nn::CostTable table = nn::table(nn::attention_complexity({16, 256}));
  EXPECT_EQ(table.csv(), "length,matrix elements,matrix KB,operations\n16,256,1,33024\n256,65536,256,8454144\n");
  EXPECT_EQ(fmt::format("{}", table),
            "length  matrix elements  matrix KB  operations  matrix KB\n"
            "    16              256          1       33024  █\n"
            "   256            65536        256     8454144  ████████████████████████\n");
}

TEST(AttentionPlanTest, OneHeadOfOneItem) {
  const auto weights_mb = [](std::int64_t layers, std::int64_t length) {
    return nn::plan_attention({.layers = layers, .length = length}).weights_bytes / kMb;
  };
  EXPECT_EQ(weights_mb(1, 128), 64.0 / 1024);
  EXPECT_EQ(weights_mb(1, 512), 1);
  EXPECT_EQ(weights_mb(1, 1024), 4);
  EXPECT_EQ(weights_mb(1, 2048), 16);
  EXPECT_EQ(weights_mb(96, 2048), 1.5 * 1024);
  EXPECT_EQ(weights_mb(6, 512), 6);
  EXPECT_EQ(weights_mb(120, 32'768), 480.0 * 1024);
}

TEST(AttentionPlanTest, HeadsItemsAndDtypeMultiply) {
  const nn::AttentionPlan plan =
      nn::plan_attention({.layers = 3, .heads = 8, .length = 512, .width = 64, .batch = 2, .dtype = float64});
  EXPECT_EQ(plan.weights_bytes_per_layer, 2.0 * 8 * 512 * 512 * 8);
  EXPECT_EQ(plan.weights_bytes, 3 * plan.weights_bytes_per_layer);
  EXPECT_EQ(plan.fused_bytes, plan.weights_bytes / 512 * 2);
  EXPECT_EQ(plan.parameter_bytes, 3.0 * 12 * 64 * 64 * 8);
  EXPECT_EQ(plan.gradient_bytes, plan.parameter_bytes);
  EXPECT_EQ(plan.optimizer_bytes, 2 * plan.parameter_bytes);
}

TEST(AttentionPlanTest, TheCrossingIsWhereTheCostsAreEqual) {
  nn::AttentionPlanOptions options{.heads = 8, .width = 128};
  options.length = static_cast<std::int64_t>(nn::plan_attention(options).crossing_length);
  EXPECT_EQ(options.length, 512);
  nn::AttentionPlan plan = nn::plan_attention(options);
  EXPECT_EQ(plan.attention_operations, plan.feed_forward_operations);
  EXPECT_TRUE(contains(fmt::format("{}", plan), "from length 512 on"));
  options.length = static_cast<std::int64_t>(plan.crossing_length_with_projections);
  plan = nn::plan_attention(options);
  EXPECT_EQ(plan.attention_operations + plan.projection_operations, plan.feed_forward_operations);
  options.length = static_cast<std::int64_t>(plan.memory_crossing_length);
  plan = nn::plan_attention(options);
  EXPECT_EQ(plan.weights_bytes, static_cast<double>(options.length) * 4 * 128 * 4);
  EXPECT_TRUE(contains(error_of([] { nn::plan_attention({.heads = 0}); }), "heads must be positive; got 0"));
}

TEST(AttentionProfilerTest, TimingComparesWithTheLengthBefore) {
  const auto rows = AttentionProfiler(kQuick).timing({4, 8, 64}, 16, 2);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].scaling, 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_GT(rows[i].forward.median_ms, 0);
    EXPECT_GT(rows[i].backward.median_ms, 0);
    EXPECT_GE(rows[i].forward.spread_ms, 0);
    EXPECT_DOUBLE_EQ(rows[i].operations_per_second * rows[i].forward.median_ms, 1000);
    if (i > 0) {
      EXPECT_DOUBLE_EQ(rows[i].scaling, rows[i].forward.median_ms / rows[i - 1].forward.median_ms);
    }
  }
}

TEST(AttentionProfilerTest, MemoryIsMeasuredBesideTheFormula) {
  const auto rows = AttentionProfiler(kQuick).memory();
  const double forward[] = {0.0625, 0.25, 1, 4};
  ASSERT_EQ(rows.size(), 4u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].sequence_length, 128 << i);
    EXPECT_EQ(rows[i].forward_mb, forward[i]);
    EXPECT_EQ(rows[i].with_gradients_mb, 2 * forward[i]);
    EXPECT_EQ(rows[i].with_optimizer_mb, 4 * forward[i]);
    EXPECT_EQ(rows[i].total_mb, 4 * forward[i]);
    EXPECT_EQ(rows[i].weights_mb, 8 * forward[i]);
    EXPECT_GE(rows[i].composed.activations_mb, rows[i].weights_mb);
    EXPECT_GE(rows[i].composed.peak_mb, rows[i].composed.activations_mb);
    EXPECT_EQ(rows[i].parameters_mb, 4.0 * (128 * 128 + 128) * 4 / kMb);
    EXPECT_EQ(rows[i].optimizer_mb, 2 * rows[i].parameters_mb);
    if (i > 1) {
      EXPECT_LT(rows[i].fused.peak_mb, rows[i].weights_mb);
    }
  }
  EXPECT_NEAR(rows[3].fused.activations_mb / rows[1].fused.activations_mb, 4, 0.4);  // it grows with the length
}

TEST(AttentionProfilerTest, ScalingReport) {
  const nn::AttentionScalingReport report = AttentionProfiler(kQuick).profile_scaling();
  const double flops[] = {528'384, 2'113'536, 8'454'144, 33'816'576};
  ASSERT_EQ(report.detailed_results.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const nn::AttentionSample& sample = report.detailed_results[i];
    const double n = static_cast<double>(64 << i);
    EXPECT_EQ(sample.sequence_length, n);
    EXPECT_EQ(sample.theoretical_flops, flops[i]);
    EXPECT_EQ(sample.query_memory_mb, n * 64 * 4 / kMb);
    EXPECT_EQ(sample.attention_matrix_memory_mb, 4 * n * n / kMb);
    EXPECT_EQ(sample.total_memory_mb, 3 * sample.query_memory_mb + sample.attention_matrix_memory_mb);
    EXPECT_EQ(sample.time_ms, sample.forward.median_ms);
    EXPECT_DOUBLE_EQ(sample.flops_per_second * sample.time_ms / 1000, flops[i]);
    EXPECT_DOUBLE_EQ(sample.memory_bandwidth_mbs * sample.time_ms / 1000, sample.total_memory_mb);
    EXPECT_GE(sample.measured.activations_mb, sample.attention_matrix_memory_mb);
  }
  const nn::ScalingFactors& factors = report.scaling_analysis.sequence_scaling;
  const auto &first = report.detailed_results.front(), &last = report.detailed_results.back();
  EXPECT_EQ(factors.sequence_ratio, 8);
  EXPECT_EQ(factors.theoretical_quadratic, 64);
  EXPECT_EQ(factors.attention_memory_scaling, 64);
  EXPECT_EQ(factors.time_scaling_factor, last.time_ms / first.time_ms);
  EXPECT_EQ(factors.time_vs_quadratic_ratio, factors.time_scaling_factor / 64);
  EXPECT_EQ(factors.memory_scaling_factor, last.measured.peak_mb / first.measured.peak_mb);
  // With lengths that double, the least-squares slope weighs the four logarithms by -3, -1, 1 and 3, over 10.
  double slope = 0;
  for (int i = 0; i < 4; ++i) slope += (2 * i - 3) / 10.0 * std::log2(report.detailed_results[i].time_ms);
  EXPECT_NEAR(factors.fitted_exponent, slope, 1e-9);
  const nn::MemoryBreakdown& memory = report.scaling_analysis.memory_breakdown;
  EXPECT_EQ(memory.peak_total_memory_mb, last.measured.peak_mb);
  EXPECT_EQ(memory.peak_attention_memory_mb, 1);
  EXPECT_NEAR(memory.attention_memory_percentage, 100 / 1.375, 1e-9);
  const std::string text = fmt::format("{}", report);
  for (const char* part : {"33816576", "bottleneck: ", "length 512", "AttentionOptions::window", "KVCache"})
    EXPECT_TRUE(contains(text, part)) << part << " in\n" << text;
}

TEST(AttentionProfilerTest, AllThreeBottlenecksOccur) {
  EXPECT_EQ(nn::bottleneck_of(1.3, 1), Bottleneck::computation);
  EXPECT_EQ(nn::bottleneck_of(1.1, 1), Bottleneck::balanced);
  EXPECT_EQ(nn::bottleneck_of(1, 1.4), Bottleneck::balanced);
  EXPECT_EQ(nn::bottleneck_of(1, 1.6), Bottleneck::memory);
  EXPECT_EQ(nn::bottleneck_of(1.3, 1, {.computation = 2}), Bottleneck::balanced);
  EXPECT_EQ(nn::name_of(Bottleneck::balanced), "balanced");
}

/// The options that are recommended for a report with these numbers.
std::string recommended(double peak_mb, std::int64_t length, double matrix_mb, double time_vs_quadratic,
                        AttentionProfilerOptions options = {}) {
  nn::AttentionScalingReport report;
  nn::AttentionSample sample{};
  sample.sequence_length = length;
  sample.attention_matrix_memory_mb = matrix_mb;
  sample.total_memory_mb = 10;
  sample.measured.peak_mb = peak_mb;
  report.detailed_results = {sample};
  report.scaling_analysis.sequence_scaling.time_vs_quadratic_ratio = time_vs_quadratic;
  std::string text;
  for (const nn::Recommendation& item : nn::recommendations(report, options))
    text += item.option + ": " + item.reason + "\n";
  return text;
}

TEST(AttentionProfilerTest, EachRecommendationHasItsTrigger) {
  const std::string always = recommended(1, 511, 6, 1.5);
  EXPECT_EQ(std::count(always.begin(), always.end(), '\n'), 2) << always;
  EXPECT_TRUE(contains(always, "KVCache: ") && contains(always, "num_kv_heads: "));
  EXPECT_TRUE(contains(recommended(123, 1, 0, 0), "checkpoint: the measured peak is 123.0 MB, above 100.0 MB"));
  EXPECT_TRUE(contains(recommended(1, 1, 7, 0), "need_weights = false: the matrix has 70 % of the memory"));
  EXPECT_FALSE(contains(recommended(1, 1, 7, 0, {.need_weights = false}), "need_weights"));
  EXPECT_TRUE(contains(recommended(1, 512, 0, 0), "AttentionOptions::window: length 512 reaches 512"));
  EXPECT_TRUE(contains(recommended(1, 512, 0, 0), "is_causal = true"));
  EXPECT_FALSE(contains(recommended(1, 512, 0, 0, {.is_causal = true}), "is_causal"));
  EXPECT_TRUE(contains(recommended(1, 1, 0, 1.6), "1.60 times what is quadratic, above 1.50"));
  EXPECT_FALSE(contains(recommended(1, 600, 0, 0, {.thresholds = {.long_length = 1000}}), "window"));
}

TEST(AttentionProfilerTest, MultiHeadEfficiencyIsMeasured) {
  const int threads = num_threads();
  set_num_threads(2);
  const auto rows = AttentionProfiler(kQuick).multi_head_efficiency();
  EXPECT_EQ(num_threads(), 2);
  set_num_threads(threads);
  ASSERT_EQ(rows.size(), 4u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].num_heads, 1 << i);
    EXPECT_EQ(rows[i].head_dimension, 512 >> i);
    EXPECT_EQ(rows[i].total_parameters, 786'432);
    EXPECT_EQ(rows[i].attention_memory_mb, 0.0625 * (1 << i));
    EXPECT_EQ(rows[i].total_flops, 8'388'608);
    EXPECT_DOUBLE_EQ(rows[i].speed_up * rows[i].effective_compute_time, rows[i].single_thread_ms);
    EXPECT_DOUBLE_EQ(2 * rows[i].parallelization_efficiency, rows[i].speed_up);
  }
  EXPECT_TRUE(contains(nn::trade_off(rows), "least memory for matrices: 1 heads, 0.0625 MB"));
}

TEST(AttentionProfilerTest, ProgressReachesTheEndAndNothingIsLeftBehind) {
  const RandomState before = random_state();
  const std::int64_t bytes = memory::current();
  std::vector<double> done;
  AttentionProfilerOptions options = kQuick;
  options.on_progress = [&](double share) { done.push_back(share); };
  AttentionProfiler(options).timing({4, 8}, 8, 2);
  EXPECT_EQ(done.size(), 6u);  // two lengths, three runs
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_DOUBLE_EQ(done.back(), 1);
  EXPECT_EQ(random_state(), before);
  EXPECT_EQ(memory::current(), bytes);
}

TEST(AttentionProfilerTest, ErrorsAreReported) {
  const AttentionProfiler profiler(kQuick);
  EXPECT_TRUE(contains(error_of([&] { profiler.timing({}); }), "lengths must be at least 1, positive, and increase"));
  EXPECT_TRUE(contains(error_of([&] { profiler.memory({8, 8}); }), "got [8, 8]"));
  EXPECT_TRUE(contains(error_of([&] { profiler.memory({-1}); }), "got [-1]"));
  EXPECT_TRUE(contains(error_of([&] { profiler.profile_scaling({64}); }), "at least 2"));
  EXPECT_TRUE(contains(error_of([&] { profiler.profile_scaling({4, 8}, 0); }), "width must be positive; got 0"));
  EXPECT_TRUE(contains(error_of([&] { profiler.multi_head_efficiency({3}, 8, 16); }), "divisible"));
  EXPECT_TRUE(contains(error_of([] { AttentionProfiler({.iterations = 0}); }), "iterations"));
  EXPECT_TRUE(contains(error_of([] { AttentionProfiler({.dtype = int64}); }), "got int64"));
  EXPECT_THROW(nn::trade_off({}), ValueError);
  EXPECT_THROW(nn::recommendations({}, {}), ValueError);
  AttentionProfilerOptions failing = kQuick;
  failing.on_progress = [](double) { throw std::runtime_error("stopped"); };
  EXPECT_THROW(AttentionProfiler(failing).timing({4}, 8, 2), std::runtime_error);
}

}  // namespace
}  // namespace tapegrad
