#include <tapegrad/nn/attention_plan.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {
namespace {

/// Whole and large numbers have no decimals, those below 1 four.
int decimals(const CostTable& table, std::size_t column, double& largest) {
  bool whole = true;
  largest = 0;
  for (const auto& row : table.rows) {
    whole = whole && row[column] == std::floor(row[column]);
    largest = std::max(largest, row[column]);
  }
  return whole || largest >= 1e4 ? 0 : largest < 1 ? 4 : 3;
}

}  // namespace

std::string CostTable::to_string() const {
  constexpr double kLongestBar = 24;
  std::vector<std::string> lines(rows.size() + 1);
  const auto add_column = [&](std::size_t column, bool as_bar) {
    double largest;
    const int digits = decimals(*this, column, largest);
    std::vector<std::string> cells = {columns[column]};
    for (const auto& row : rows) {
      cells.push_back(as_bar ? "" : fmt::format("{:.{}f}", row[column], digits));
      for (double bar = 0; as_bar && bar < kLongestBar * row[column] / largest; ++bar) cells.back() += "█";
    }
    std::size_t width = 0;
    for (const std::string& cell : cells) width = std::max(width, cell.size());
    for (std::size_t i = 0; i < cells.size(); ++i)
      lines[i] += as_bar ? "  " + cells[i] : fmt::format("{}{:>{}}", column ? "  " : "", cells[i], width);
  };
  for (std::size_t column = 0; column < columns.size(); ++column) add_column(column, false);
  if (bar >= 0) add_column(static_cast<std::size_t>(bar), true);
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

std::string CostTable::csv() const {
  std::string text = fmt::format("{}\n", fmt::join(columns, ","));
  for (const auto& row : rows) text += fmt::format("{}\n", fmt::join(row, ","));
  return text;
}

std::vector<AttentionComplexity> attention_complexity(const std::vector<std::int64_t>& lengths, std::int64_t width) {
  std::vector<AttentionComplexity> rows;
  for (const std::int64_t n : lengths) {
    require(n > 0 && width > 0, "attention_complexity: lengths and width must be positive; got length {} and width {}",
            n, width);
    const double pairs = static_cast<double>(n) * static_cast<double>(n);
    require(
        pairs * (2.0 * static_cast<double>(width) + 1) < 0x1p63,
        "attention_complexity: operations must be below 2^63, so that they can be counted; got length {} and width {}",
        n, width);
    rows.push_back({n, n * n, 4 * pairs / 1024, n * n * (2 * width + 1)});
  }
  return rows;
}

CostTable table(const std::vector<AttentionComplexity>& rows) {
  CostTable result{{"length", "matrix elements", "matrix KB", "operations"}, {}, 2};
  for (const auto& row : rows) result.add(row.sequence_length, row.matrix_elements, row.matrix_kb, row.operations);
  return result;
}

AttentionPlan plan_attention(const AttentionPlanOptions& options) {
  for (const auto& [what, size] : {std::pair{"layers", options.layers},
                                   {"heads", options.heads},
                                   {"length", options.length},
                                   {"width", options.width},
                                   {"batch", options.batch}})
    require(size > 0, "plan_attention: {} must be positive; got {}", what, size);
  const double ratio = options.mlp_ratio;
  require(ratio > 0 && std::isfinite(ratio), "plan_attention: mlp_ratio must be positive; got {}", ratio);
  const auto layers = static_cast<double>(options.layers), n = static_cast<double>(options.length),
             d = static_cast<double>(options.width), heads = static_cast<double>(options.heads);
  const double rows = static_cast<double>(options.batch) * heads * n;
  const auto bytes = static_cast<double>(size_of(options.dtype));
  AttentionPlan plan{};
  plan.weights_bytes_per_layer = rows * n * bytes;
  plan.weights_bytes = layers * plan.weights_bytes_per_layer;
  plan.fused_bytes = layers * rows * 2 * bytes;
  plan.attention_operations = 2 * n * n * d;
  plan.projection_operations = 4 * n * d * d;
  plan.feed_forward_operations = 2 * ratio * n * d * d;
  plan.crossing_length = ratio * d;
  plan.crossing_length_with_projections = std::max(0.0, (ratio - 2) * d);
  plan.memory_crossing_length = ratio * d / heads;
  plan.parameter_bytes = plan.gradient_bytes = layers * (4 + 2 * ratio) * d * d * bytes;
  plan.optimizer_bytes = 2 * plan.parameter_bytes;
  return plan;
}

std::string AttentionPlan::to_string() const {
  constexpr double kMb = 1 << 20;
  return fmt::format(
      "weights of attention: {:.2f} MB a layer, {:.2f} MB in all; the fused path keeps {:.2f} MB instead\n"
      "operations of an item in a layer: {:.4g} scores and mixing, {:.4g} projections, {:.4g} feed-forward\n"
      "scores and mixing cost more than the feed-forward net from length {:.0f} on; attention with its projections "
      "from {:.0f} on\n"
      "the weights take more memory than the feed-forward net's hidden layer from length {:.0f} on\n"
      "parameters {:.2f} MB, their gradients {:.2f} MB, Adam's moments {:.2f} MB\n",
      weights_bytes_per_layer / kMb, weights_bytes / kMb, fused_bytes / kMb, attention_operations,
      projection_operations, feed_forward_operations, crossing_length, crossing_length_with_projections,
      memory_crossing_length, parameter_bytes / kMb, gradient_bytes / kMb, optimizer_bytes / kMb);
}

}  // namespace tapegrad::nn
