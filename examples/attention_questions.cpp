// Six questions about attention, each answered by measuring: `attention_questions`, or `attention_questions --quick`
// for shorter sequences. What the answers mean is in docs/attention.md.
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"
#include "cost.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

Cost attention(std::int64_t length, const nn::AttentionOptions& options, bool backward = false) {
  const tg::Tensor q = tg::randn({8, length, 64}), k = tg::randn({8, length, 64}), v = tg::randn({8, length, 64});
  for (tg::Tensor x : {q, k, v}) x.requires_grad_(backward);
  return cost([&] {
    const tg::Tensor output = nn::scaled_dot_product_attention(q, k, v, options).output;
    if (backward) output.sum().backward();
    for (const tg::Tensor& x : {q, k, v}) x.set_grad({});
  });
}

void matrix_size(std::int64_t n) {
  fmt::print("1. What does doubling the length cost? 8 heads of width 64, weights kept\n");
  for (const std::int64_t length : {n / 2, n}) {
    const Cost stored = attention(length, {}), fused = attention(length, {.need_weights = false});
    fmt::print("   n = {:>5}: weights alone {:>6.1f} MB, measured {:>6.1f} MB; never stored {:>5.1f} MB\n", length,
               8.0 * 4 * static_cast<double>(length * length) / (1 << 20), stored.mb, fused.mb);
  }
}

void against_feed_forward(std::int64_t n) {
  constexpr std::int64_t width = 256;
  fmt::print("2. When does attention outweigh the feed-forward layer? width {}, 4 heads, hidden layer {}\n", width,
             4 * width);
  const nn::MultiHeadAttention attention(width, 4);
  const nn::Linear in(width, 4 * width), out(4 * width, width);
  const tg::NoGradGuard no_grad;
  for (std::int64_t length = n / 16; length <= n; length *= 2) {
    const tg::Tensor x = tg::randn({1, length, width});
    const double both[] = {cost([&] { attention(x); }).ms, cost([&] { out.of_gelu(in(x)); }).ms};
    fmt::print("   n = {:>5}: attention {:>7.2f} ms, feed-forward {:>7.2f} ms{}\n", length, both[0], both[1],
               both[0] > both[1] ? "   <- attention" : "");
  }
}

void heads(std::int64_t n) {
  fmt::print("3. Eight heads of 64, or one of 512? n = {}\n", n / 4);
  const tg::Tensor x = tg::randn({1, n / 4, 512});
  for (const std::int64_t count : {8, 1}) {
    const nn::MultiHeadAttention layer(512, count);
    const Cost weights = cost([&] { layer.attention_weights(x); }), step = cost([&] { layer(x).sum().backward(); });
    fmt::print("   {} x {:>3}: {} parameters, forward + backward {:>6.1f} ms, with weights {:>5.1f} MB\n", count,
               512 / count, layer.num_parameters(), step.ms, weights.mb);
  }
}

void masks(std::int64_t n) {
  fmt::print("4. Does masking save work? n = {}, forward + backward\n", n);
  const auto row = [&](const char* what, nn::AttentionOptions options) {
    options.need_weights = false;
    const Cost measured = attention(n, options, true);
    fmt::print("   {:<30} {:>7.1f} ms {:>6.1f} MB\n", what, measured.ms, measured.mb);
  };
  row("no mask", {});
  row("a causal mask as a tensor", {.mask = nn::create_causal_mask(n)});
  row(".is_causal = true", {.is_causal = true});
  row(".is_causal, .window = 64", {.is_causal = true, .window = 64});
}

void fused(std::int64_t n) {
  fmt::print("5. Without the n x n matrix: slower, or less exact? n = {}, causal, forward + backward\n", n / 2);
  const Cost composed = attention(n / 2, {.is_causal = true}, true);
  const Cost tiles = attention(n / 2, {.is_causal = true, .need_weights = false}, true);
  const tg::Tensor x = tg::randn({n / 2, 64}, tg::float64);
  const tg::Tensor difference = nn::scaled_dot_product_attention(x, x, x, {.need_weights = false}).output -
                                nn::scaled_dot_product_attention(x, x, x).output;
  fmt::print("   with weights {:>7.1f} ms {:>7.1f} MB\n   in tiles     {:>7.1f} ms {:>7.1f} MB\n", composed.ms,
             composed.mb, tiles.ms, tiles.mb);
  fmt::print("   largest difference in float64: {:.1e}\n", difference.abs().max().item());
}

void training_memory(std::int64_t n) {
  fmt::print("6. What does training keep that inference doesn't? 4 blocks of width 128, batch 4 x {}\n", n / 16);
  const auto mb = [before = tg::memory::current()] {
    return static_cast<double>(tg::memory::current() - before) / (1 << 20);
  };
  nn::ModuleList<nn::TransformerBlock> blocks;
  for (int i = 0; i < 4; ++i) blocks.append(nn::TransformerBlock(128, 4));
  tg::optim::AdamW optimizer(blocks.parameters());
  const double parameters = mb();
  const tg::Tensor x = tg::randn({4, n / 16, 128});
  const auto forward = [&] {
    tg::Tensor h = x;
    for (const nn::TransformerBlock& block : blocks) h = block(h, {.is_causal = true});
    return h.sum();
  };
  const tg::NoGradGuard off;
  const double inference = cost([&] { forward(); }).mb;
  const tg::GradModeGuard on(true);
  tg::Tensor loss = forward();
  const double tape = mb() - parameters;
  loss.backward();
  loss = {};
  const double gradients = mb() - parameters - static_cast<double>(x.numel()) * 4 / (1 << 20);
  optimizer.step();
  fmt::print("   parameters {:.2f} MB, gradients {:.2f} MB, AdamW's moments {:.2f} MB\n", parameters, gradients,
             mb() - parameters - gradients - static_cast<double>(x.numel()) * 4 / (1 << 20));
  fmt::print("   activations: {:.2f} MB kept for backward, {:.2f} MB at the peak of inference\n", tape, inference);
}

int main(int argc, char** argv) {
  bool quick = false;
  arguments::Program program("attention_questions", "Six questions about attention, answered by measuring");
  program.add_flag("--quick", quick, "shorter sequences");
  return program.run(argc, argv, [&] {
    for (const auto& answer : {matrix_size, against_feed_forward, heads, masks, fused, training_memory})
      answer(quick ? 256 : 2048);
    return true;
  });
}
