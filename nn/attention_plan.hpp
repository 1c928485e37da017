// What attention costs, by counting: a multiply-add is one operation, and a MB 2^20 bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/core/dtype.hpp>

namespace tapegrad::nn {

/// Columns of numbers; fmt prints it.
struct CostTable {
  std::vector<std::string> columns;
  std::vector<std::vector<double>> rows;
  /// The column that bars are drawn of, at the right; none if negative.
  int bar = -1;

  template <class... Numbers>
  void add(Numbers... numbers) {
    rows.push_back({static_cast<double>(numbers)...});
  }
  std::string to_string() const;
  /// A line of names, and one for each row, with all digits.
  std::string csv() const;
};

/// One head over one item, in float32.
struct AttentionComplexity {
  std::int64_t sequence_length;
  std::int64_t matrix_elements;  // n^2
  double matrix_kb;              // 4 n^2 / 1024
  std::int64_t operations;       // 2 n^2 width + n^2: both products, and the softmax
};
/// ValueError unless lengths and width are positive, and the operations below 2^63.
std::vector<AttentionComplexity> attention_complexity(const std::vector<std::int64_t>& lengths = {16, 32, 64, 128, 256},
                                                      std::int64_t width = 64);
CostTable table(const std::vector<AttentionComplexity>& rows);

struct AttentionPlanOptions {
  std::int64_t layers = 1;
  std::int64_t heads = 1;
  std::int64_t length = 1024;
  std::int64_t width = 512;
  double mlp_ratio = 4;
  std::int64_t batch = 1;
  Dtype dtype = float32;
};
/// A transformer's attention on paper. Numbers are exact up to 2^53.
struct AttentionPlan {
  /// Of the weights, batch heads length^2, where they are kept: by the composed path.
  double weights_bytes_per_layer;
  double weights_bytes;
  /// What the fused path keeps in their place: two numbers for each row.
  double fused_bytes;
  /// Of one item in one layer: scores and mixing 2 n^2 d, the four projections 4 n d^2, the feed-forward net 2 r n d^2.
  double attention_operations;
  double projection_operations;
  double feed_forward_operations;
  /// Where scores and mixing begin to cost more than the feed-forward net, n = r d; with the projections counted on
  /// attention's side, n = (r - 2) d, or 0.
  double crossing_length;
  double crossing_length_with_projections;
  /// Where the weights begin to take more memory than the feed-forward net's hidden layer: n = r d / heads.
  double memory_crossing_length;
  /// Matrices of all layers; gradients take as much again, and Adam's two moments twice that. No state belongs to
  /// activations.
  double parameter_bytes;
  double gradient_bytes;
  double optimizer_bytes;

  std::string to_string() const;
};
/// ValueError unless all sizes are positive.
AttentionPlan plan_attention(const AttentionPlanOptions& options);

}  // namespace tapegrad::nn

template <>
struct fmt::formatter<tapegrad::nn::CostTable> : tapegrad::ToStringFormatter {};
template <>
struct fmt::formatter<tapegrad::nn::AttentionPlan> : tapegrad::ToStringFormatter {};
