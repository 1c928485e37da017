#include <tapegrad/nn/attention_map.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/nn/attention_labels.hpp>

namespace tapegrad::nn {
namespace {

/// A map [L, S] with its labels.
struct Map {
  Map(const char* operation, const Tensor& weights, const std::vector<std::string>& tokens)
      : rows(0), keys(0), labels(tokens) {
    require<ShapeError>(weights.rank() == 2,
                        "{}: weights must be one head's, [queries, keys]; got {}; select an item and a head", operation,
                        weights.shape());
    rows = weights.size(0);
    keys = weights.size(1);
    values = weights.to_vector<double>();
    if (tokens.empty())
      for (std::int64_t i = 0; i < std::max(rows, keys); ++i) labels.push_back(std::to_string(i));
    else
      check_tokens(operation, tokens, rows, keys);
    for (std::string& label : labels) {
      label = visible_token(label);
      label_width = std::max(label_width, display_width(label));
    }
  }

  double at(std::int64_t row, std::int64_t key) const { return values[static_cast<std::size_t>(row * keys + key)]; }
  const std::string& label(std::int64_t position, std::int64_t length) const {
    return labels[static_cast<std::size_t>(position + std::max(rows, keys) - length)];
  }
  const std::string& key(std::int64_t key) const { return label(key, keys); }
  const std::string& query(std::int64_t row) const { return label(row, rows); }

  std::int64_t rows, keys;
  std::vector<double> values;
  std::vector<std::string> labels;
  std::int64_t label_width = 0;
};

const char* shade(double weight) {
  const auto w = static_cast<float>(weight);  // so that 0.1 is not below 0.1 in any dtype
  return std::isnan(w) ? "?" : w == 0 ? " " : w < 0.02f ? "·" : w < 0.1f ? "░" : w < 0.25f ? "▒" : w < 0.5f ? "▓" : "█";
}

}  // namespace

HeadStatistics head_statistics(const Tensor& weights) {
  const Map map("head_statistics", weights, {});
  HeadStatistics sum{};
  for (std::int64_t i = 0; i < map.rows; ++i)
    for (std::int64_t j = 0; j < map.keys; ++j) {
      const double weight = map.at(i, j);
      if (weight > 0) sum.entropy -= weight * std::log(weight);
      sum.mean_distance += weight * std::abs(static_cast<double>(i + map.keys - map.rows - j));
      if (j == 0) sum.first_share += weight;
    }
  const auto rows = static_cast<double>(std::max<std::int64_t>(map.rows, 1));
  return {sum.entropy / rows, sum.mean_distance / rows, sum.first_share / rows};
}

std::string attention_table(const Tensor& weights, const std::vector<std::string>& tokens) {
  const Map map("attention_table", weights, tokens);
  const std::int64_t width = std::max<std::int64_t>(map.label_width, 5) + 2;
  std::string text(static_cast<std::size_t>(map.label_width), ' ');
  for (std::int64_t j = 0; j < map.keys; ++j) text += fmt::format("{:>{}}", map.key(j), width);
  text += "    sum\n";
  for (std::int64_t i = 0; i < map.rows; ++i) {
    text += fmt::format("{:>{}}", map.query(i), map.label_width);
    double sum = 0;
    for (std::int64_t j = 0; j < map.keys; ++j) {
      text += fmt::format("{:>{}.3f}", map.at(i, j), width);
      sum += map.at(i, j);
    }
    text += fmt::format("  {:.3f}\n", sum);
  }
  return text;
}

void print_attention(const Tensor& weights, const std::vector<std::string>& tokens) {
  fmt::print("{}", attention_table(weights, tokens));
}

std::string attention_blocks(const Tensor& weights, const std::vector<std::string>& tokens, std::int64_t columns) {
  const Map map("attention_blocks", weights, tokens);
  const std::int64_t side = map.label_width + 1;
  const bool narrow = map.label_width < 2 && side + 2 * map.keys > columns;
  const std::int64_t width = narrow ? 1 : map.label_width <= 2 ? 2 : side, fit = (columns - side) / width;
  require(fit >= 1, "attention_blocks: columns must hold a label and a key, {}; got {}", side + width, columns);
  std::string text;
  for (std::int64_t first = 0; first < map.keys; first += fit) {
    const std::int64_t end = std::min(first + fit, map.keys);
    if (first > 0) text += fmt::format("keys {} to {} of {}:\n", first + 1, end, map.keys);
    text += fmt::format("{:{}}", "", side);
    for (std::int64_t j = first; j < end; ++j) text += fmt::format("{:<{}}", map.key(j), width);
    text += '\n';
    for (std::int64_t i = 0; i < map.rows; ++i) {
      text += fmt::format("{:>{}} ", map.query(i), map.label_width);
      for (std::int64_t j = first; j < end; ++j)
        for (std::int64_t k = 0; k < width; ++k) text += shade(map.at(i, j));
      text += '\n';
    }
  }
  return text;
}

}  // namespace tapegrad::nn
