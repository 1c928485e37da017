#include <tapegrad/nn/attention_plan.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapegrad/core/error.hpp>

namespace tapegrad::nn {
namespace {

std::string bar(double value, double largest) {
  constexpr double kLongest = 24;
  std::string text;
  for (int i = 0; value > 0 && i < std::max(1.0, std::round(kLongest * value / largest)); ++i) text += "█";
  return text;
}

}  // namespace

std::string CostTable::to_string() const {
  std::string text;
  double largest = 0;
  for (const auto& row : rows)
    if (bar >= 0) largest = std::max(largest, row[static_cast<std::size_t>(bar)]);
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    widths.push_back(columns[i].name.size());
    for (const auto& row : rows)
      widths[i] = std::max(widths[i], fmt::formatted_size("{:.{}f}", row[i], columns[i].decimals));
    text += fmt::format("{}{:>{}}", i ? "  " : "", columns[i].name, widths[i]);
  }
  text += bar < 0 ? "\n" : fmt::format("  {}\n", columns[static_cast<std::size_t>(bar)].name);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      text += fmt::format("{}{:>{}.{}f}", i ? "  " : "", row[i], widths[i], columns[i].decimals);
    if (bar >= 0) text += "  " + nn::bar(row[static_cast<std::size_t>(bar)], largest);
    text += '\n';
  }
  return text;
}

std::string CostTable::csv() const {
  std::string text;
  for (std::size_t i = 0; i < columns.size(); ++i) text += (i ? "," : "") + columns[i].name;
  text += '\n';
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += fmt::format("{}{}", i ? "," : "", row[i]);
    text += '\n';
  }
  return text;
}

std::vector<AttentionComplexity> attention_complexity(const std::vector<std::int64_t>& lengths, std::int64_t width) {
  std::vector<AttentionComplexity> rows;
  for (const std::int64_t n : lengths) {
    if (n <= 0 || width <= 0)
      throw ValueError(fmt::format(
          "attention_complexity: lengths and width must be positive; got length {} and width {}", n, width));
    rows.push_back({n, n * n, 4.0 * static_cast<double>(n * n) / 1024, 2 * n * n * width + n * n});
  }
  return rows;
}

CostTable table(const std::vector<AttentionComplexity>& rows) {
  CostTable result{{{"length"}, {"matrix elements"}, {"matrix KB", 2}, {"operations"}}, {}, 2};
  for (const auto& row : rows)
    result.rows.push_back({static_cast<double>(row.sequence_length), static_cast<double>(row.matrix_elements),
                           row.matrix_kb, static_cast<double>(row.operations)});
  return result;
}

AttentionPlan plan_attention(const AttentionPlanOptions& options) {
  for (const auto& [what, size] : {std::pair{"layers", options.layers},
                                   {"heads", options.heads},
                                   {"length", options.length},
                                   {"width", options.width},
                                   {"batch", options.batch}})
    if (size <= 0) throw ValueError(fmt::format("plan_attention: {} must be positive; got {}", what, size));
  const double ratio = options.mlp_ratio;
  if (!(ratio > 0 && std::isfinite(ratio)))
    throw ValueError(fmt::format("plan_attention: mlp_ratio must be positive; got {}", ratio));
  const auto layers = static_cast<double>(options.layers), n = static_cast<double>(options.length),
             d = static_cast<double>(options.width), heads = static_cast<double>(options.heads);
  const double rows = static_cast<double>(options.batch) * heads * n;
  const auto bytes = static_cast<double>(size_of(options.dtype));
  AttentionPlan plan{};
  plan.weights_bytes_per_layer = rows * n * bytes;
  plan.weights_bytes = layers * plan.weights_bytes_per_layer;
  plan.fused_bytes = layers * rows * bytes;
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
