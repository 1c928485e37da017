// A tour of attention in six stops: shapes, a causal mask, one head's weights as a labelled matrix, the same with the
// future hidden, what heads differ in, and each step of one query.
#include <cmath>
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

const std::vector<std::string> kWords = {"The", "cat", "sat", "down"};

void shapes(const nn::MultiHeadAttention& attention, const tg::Tensor& x) {
  fmt::print("1. A layer: width {}, {} heads of width {}\n", attention.embed_dim(), attention.num_heads(),
             attention.head_dim());
  fmt::print("   input {} -> output {}\n", x.shape(), attention(x).shape());
  fmt::print("   {} parameter tensors, a weight and a bias for each of q_proj, k_proj, v_proj and out_proj\n\n",
             attention.parameters().size());
}

void causal_shapes(const nn::MultiHeadAttention& attention, const tg::Tensor& x) {
  const std::int64_t items = x.size(0), length = x.size(1);
  const tg::Tensor mask = nn::create_causal_mask(length).expand({items, length, length});
  const tg::Tensor masked = attention(x, mask), flagged = attention(x, {.is_causal = true});
  fmt::print("2. A language model must not see the future: mask {} -> output {}\n", mask.shape(), masked.shape());
  fmt::print("   is_causal = true needs no mask and gives the same, up to {:.0e}\n\n",
             tg::amax(tg::abs(masked - flagged)).item());
}

void maps(const nn::MultiHeadAttention& attention, const tg::Tensor& x) {
  const tg::Tensor weights = attention.attention_weights(x);  // [N, H, L, L]
  fmt::print(
      "3. Attention weights {} of \"The cat sat down\": the first head. A row is the word that looks, a column\n"
      "   the word looked at, and each row is a distribution.\n",
      weights.shape());
  nn::print_attention(weights.select(0, 0).select(0, 0), kWords);

  const tg::Tensor causal = attention.attention_weights(x, {.is_causal = true});
  fmt::print("\n4. The same, causal: above the diagonal every weight is exactly zero, and rows still sum to one.\n");
  nn::print_attention(causal.select(0, 0).select(0, 0), kWords);
  const tg::Tensor above = tg::triu(causal, 1);
  fmt::print("   largest weight above the diagonals of all heads: {}\n", tg::amax(above).item());

  fmt::print(
      "\n5. What to look for in a head. Local syntax: a small distance. Long-range reference: a large one. "
      "Composition:\n   a low entropy, on few words. Causal self-reference: all on or below the diagonal, near it. "
      "These heads are\n   untrained; `toy_lm attention` shows those of a trained model.\n");
  for (std::int64_t head = 0; head < attention.num_heads(); ++head) {
    const nn::HeadStatistics statistics = nn::head_statistics(causal.select(0, 0).select(0, head));
    fmt::print("   head {}: entropy {:.3f} nats, distance {:.3f} words, {:.1f} % on the first word\n", head + 1,
               statistics.entropy, statistics.mean_distance, 100 * statistics.first_share);
  }
}

void print_row(const char* what, const tg::Tensor& row, int decimals) {
  fmt::print("   {:<34}", what);
  for (const double value : row.to_vector<double>()) fmt::print(" {:>6.{}f}", value, decimals);
  fmt::print("\n");
}

void one_query() {
  const tg::Tensor query = tg::tensor({{0.1, 0.8, 0.3, 0.2}}, tg::float64);
  const tg::Tensor keys =
      tg::tensor({{0.2, 0.7, 0.1, 0.4}, {0.1, 0.9, 0.2, 0.1}, {0.3, 0.1, 0.8, 0.3}, {0.4, 0.2, 0.1, 0.9}}, tg::float64);
  const tg::Tensor values = tg::tensor({{1.0, 0.0}, {0.0, 1.0}, {1.0, 1.0}, {-1.0, 0.0}}, tg::float64);
  fmt::print("\n6. One query, step by step\n");
  print_row("query", query, 2);
  for (std::int64_t j = 0; j < keys.size(0); ++j) print_row(fmt::format("key {}", j + 1).c_str(), keys.select(0, j), 2);
  const tg::Tensor scores = tg::matmul(query, keys.transpose(0, 1));
  print_row("scores = query . keys", scores, 2);
  const tg::Tensor scaled = scores / std::sqrt(static_cast<double>(query.size(-1)));
  print_row("scaled = scores / sqrt(4)", scaled, 3);
  const tg::Tensor weights = tg::softmax(scaled, -1);
  print_row("weights = softmax(scaled)", weights, 3);
  print_row("output = weights . values", tg::matmul(weights, values), 3);
  const auto [output, same_weights] = nn::scaled_dot_product_attention(query, keys, values);
  print_row("scaled_dot_product_attention gives", output, 3);
  fmt::print("   largest difference: {:.0e}\n", std::max(tg::amax(tg::abs(output - tg::matmul(weights, values))).item(),
                                                         tg::amax(tg::abs(weights - same_weights)).item()));
}

}  // namespace

int main(int argc, char** argv) {
  return arguments::Program("attention_tour", "Attention in six stops").run(argc, argv, [] {
    tg::manual_seed(7);
    tg::NoGradGuard no_grad;
    const nn::MultiHeadAttention layer(128, 8);
    const tg::Tensor x = tg::randn({2, 32, 128});
    shapes(layer, x);
    causal_shapes(layer, x);
    maps(nn::MultiHeadAttention(16, 4), tg::randn({1, 4, 16}));
    one_query();
    return true;
  });
}
