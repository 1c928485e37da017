#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/nn/attention_labels.hpp>
#include <tapegrad/nn/attention_map.hpp>

namespace tapegrad::nn {
namespace {

constexpr const char* kName = "write_attention_html";
constexpr std::string_view kPage =
#include "attention_page.html.inc"
    ;
constexpr std::string_view kPlaceOfData = "@DATA@";

void check(const Tensors& layers, const std::vector<std::string>& tokens) {
  require<ShapeError>(!layers.empty(), "{}: there must be at least one layer; got none", kName);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    require<ShapeError>(layers[i].rank() == 3 && layers[i].numel() != 0,
                        "{}: weights of a layer must be [heads, queries, keys], none of them 0; got {} in layer {}; "
                        "select an item of the batch",
                        kName, layers[i].shape(), i);
    check_tokens(kName, tokens, layers[i].size(1), layers[i].size(2));
  }
}

/// Weights with six digits: enough for the eye, and half the size of all of them.
std::string layer_json(const Tensor& weights) {
  std::string statistics, numbers;
  for (std::int64_t head = 0; head < weights.size(0); ++head) {
    const HeadStatistics s = head_statistics(weights.select(0, head));
    statistics += fmt::format("{}[{:.6g},{:.6g},{:.6g}]", head ? "," : "", s.entropy, s.mean_distance, s.first_share);
  }
  for (const double weight : weights.to_vector<double>()) {
    require(std::isfinite(weight), "{}: weights must be finite; got {}", kName, weight);
    fmt::format_to(std::back_inserter(numbers), "{}{:.6g}", numbers.empty() ? "" : ",", weight);
  }
  return fmt::format(R"({{"heads":{},"queries":{},"keys":{},"statistics":[{}],"weights":[{}]}})", weights.size(0),
                     weights.size(1), weights.size(2), statistics, numbers);
}

/// No "<" may stand in a script of a page: in a string of JSON it can be written otherwise.
std::string tokens_json(std::vector<std::string> tokens) {
  for (std::string& token : tokens) token = visible_token(token);
  std::string text;
  for (const char c : nlohmann::json(tokens).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace))
    text += c == '<' ? "\\u003c" : std::string(1, c);
  return text;
}

}  // namespace

void write_attention_html(const std::string& path, const Tensors& layers, const std::vector<std::string>& tokens) {
  check(layers, tokens);
  std::string data = fmt::format(R"({{"tokens":{},"layers":[)", tokens_json(tokens));
  for (std::size_t i = 0; i < layers.size(); ++i) data += (i ? "," : "") + layer_json(layers[i]);
  data += "]}";
  std::string page(kPage);
  page.replace(page.find(kPlaceOfData), kPlaceOfData.size(), data);
  core::write_file_atomically(kName, path, page);
}

void write_heatmap_svg(const std::string& path, const Tensor& matrix) {
  constexpr const char* kHeatmap = "write_heatmap_svg";
  require<ShapeError>(matrix.rank() == 2 && matrix.numel() != 0,
                      "{}: the matrix must have two dimensions, none of them 0; got {}", kHeatmap, matrix.shape());
  const std::vector<double> values = matrix.to_vector<double>();
  const double largest = *std::max_element(values.begin(), values.end());
  const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{2}\" height=\"{3}\">"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      columns, rows, 12 * columns, 12 * rows);
  for (std::size_t i = 0; i < values.size(); ++i) {
    require(std::isfinite(values[i]), "{}: numbers must be finite; got {}", kHeatmap, values[i]);
    const auto place = static_cast<std::int64_t>(i);
    if (values[i] > 0)
      svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"1\" height=\"1\" fill-opacity=\"{:.4g}\"/>\n",
                         place % columns, place / columns, values[i] / largest);
  }
  svg += "</svg>\n";
  core::write_file_atomically(kHeatmap, path, svg);
}

}  // namespace tapegrad::nn
