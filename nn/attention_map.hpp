// Pictures of attention weights: as numbers and as shaded blocks for a terminal, and as a page for a browser.
#pragma once
#include <string>
#include <vector>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::nn {

/// What one head's map [L, S] is like, as means over the queries; a query that attends to nothing counts as zeros.
struct HeadStatistics {
  /// -sum w log w, in nats: 0 if each query attends to one key, log S if it attends to all alike.
  double entropy;
  /// sum w |i + S - L - j|: how far away the keys are, the last query being beside the last key.
  double mean_distance;
  /// The weight on the first key, where heads with nothing to do tend to look.
  double first_share;
};
/// weights [L, S].
HeadStatistics head_statistics(const Tensor& weights);

/// A matrix of weights [L, S] with three decimals, tokens (by default positions) along both sides, and the sums of the
/// rows. The last query stands beside the last key: with L < S the queries are the last L tokens. Spaces, line ends and
/// control characters get visible signs.
std::string attention_table(const Tensor& weights, const std::vector<std::string>& tokens = {});
/// The same, to stdout.
void print_attention(const Tensor& weights, const std::vector<std::string>& tokens = {});

/// The same matrix as shaded blocks, one or two columns to a key: a blank is exactly 0, a dot is below 0.02, and the
/// four shades begin at 0.02, 0.1, 0.25 and 0.5; NaN is a question mark. No line is longer than `columns`: keys that
/// don't fit follow below.
std::string attention_blocks(const Tensor& weights, const std::vector<std::string>& tokens = {},
                             std::int64_t columns = 80);

/// Writes one HTML page that needs nothing else, with a map to explore for each head: layers[i] holds the weights
/// [H, L, S] of layer i, and `tokens` are named as above. ShapeError if these don't
/// fit together; FileError if it can't be written, and then nothing is changed.
void write_attention_html(const std::string& path, const Tensors& layers, const std::vector<std::string>& tokens);

/// Writes any finite matrix as an SVG picture, black for its largest number and white for 0 and below.
void write_heatmap_svg(const std::string& path, const Tensor& matrix);

}  // namespace tapegrad::nn
