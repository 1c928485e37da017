// Attention as a user meets it: the function, its masks, the layers, and what a mistake gets.
#include <tapegrad/tapegrad.hpp>

#include "check.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

int main() {
  tg::manual_seed(5);

  // softmax(Q K^T / sqrt(d)) V over any leading dimensions, with its own lengths for queries and keys.
  tg::Tensor q = tg::randn({2, 3, 4, 8}).requires_grad_();
  tg::Tensor k = tg::randn({2, 3, 6, 8}).requires_grad_();
  tg::Tensor v = tg::randn({2, 3, 6, 5}).requires_grad_();
  auto [output, weights] = nn::scaled_dot_product_attention(q, k, v);
  check(output.shape() == tg::Shape{2, 3, 4, 5} && weights.shape() == tg::Shape{2, 3, 4, 6}, "shapes");
  check(tg::allclose(weights.sum(-1), tg::ones({2, 3, 4})), "each row of weights sums to one");
  check(tg::allclose(output, tg::matmul(weights, v)), "the output is the weighted sum");
  (output.sum() + (weights * weights).sum()).backward();
  check(q.grad().defined() && k.grad().defined() && v.grad().defined(), "both results carry gradients");

  // Masks: nonzero allows, zero blocks; [queries, keys] is shared by the batch, other shapes broadcast.
  tg::Tensor causal = nn::create_causal_mask(4);
  check(tg::equal(causal.to(tg::int64), tg::tril(tg::ones({4, 4}, tg::int64))), "lower triangle");
  tg::Tensor padding = nn::create_padding_mask({3, 2}, 4);
  check(padding.shape() == tg::Shape{2, 4, 4} && padding.to(tg::int64).sum().item() == 9 + 4, "valid blocks only");
  check(nn::create_bidirectional_mask(4).to(tg::int64).sum().item() == 16, "all ones");

  tg::Tensor x = tg::randn({2, 4, 8});
  auto masked = nn::scaled_dot_product_attention(x, x, x, causal);
  check(tg::equal(tg::triu(masked.weights, 1), tg::zeros({2, 4, 4})), "a blocked weight is exactly zero");
  auto fused = nn::scaled_dot_product_attention(x, x, x, {.is_causal = true, .need_weights = false});
  check(tg::allclose(fused.output, masked.output) && !fused.weights.defined(), "the path without weights agrees");

  // A query that may attend to nothing gets zeros, and zero gradients: never NaN.
  tg::Tensor none = tg::zeros({4, 4});
  tg::Tensor y = x.clone().requires_grad_();
  tg::Tensor blocked = nn::scaled_dot_product_attention(y, y, y, none).output;
  blocked.sum().backward();
  check(tg::equal(blocked, tg::zeros({2, 4, 8})) && tg::equal(y.grad(), tg::zeros({2, 4, 8})), "all blocked");

  // Layers.
  nn::MultiHeadAttention mha(64, 8);
  check(mha.embed_dim() == 64 && mha.num_heads() == 8 && mha.head_dim() == 8, "configuration");
  check(mha.parameters().size() == 8 && mha.named_parameters()[0].name == "q_proj.weight", "four projections");
  tg::Tensor h = tg::randn({2, 6, 64});
  check(mha(h).shape() == h.shape() && mha(h, nn::create_causal_mask(6)).shape() == h.shape(), "shape is kept");
  check(mha(h, tg::randn({2, 9, 64}), tg::randn({2, 9, 64})).shape() == h.shape(), "cross-attention");
  check(mha.attention_weights(h).shape() == tg::Shape{2, 8, 6, 6}, "weights of every head, on demand");
  mha(h).pow(2).mean().backward();
  for (const auto& [name, parameter] : mha.named_parameters()) {
    const bool shifts_all_scores_alike = name == "k_proj.bias";  // softmax can't see it: its gradient is zero
    check(shifts_all_scores_alike || tg::norm(parameter.grad()).item() > 1e-6, fmt::format("{} learns", name));
  }
  auto [self_output, self_weights] = nn::SelfAttention(8)(x, causal);
  check(tg::allclose(self_output, masked.output) && self_weights.shape() == tg::Shape{2, 4, 4}, "Q = K = V = x");

  // Mistakes are named with what was expected, what came, and what to do.
  check_throws(
      "heads must divide", [] { nn::MultiHeadAttention(64, 7); }, "embed_dim", "64", "num_heads", "7", "divisible");
  check_throws(
      "wrong width",
      [&] {
        mha(tg::ones({2, 6, 32}));
      },
      "MultiHeadAttention", "64", "[2, 6, 32]");
  check_throws(
      "query and key widths",
      [&] {
        nn::scaled_dot_product_attention(q, tg::ones({2, 3, 6, 7}), v);
      },
      "key", "[2, 3, 6, 7]", "[2, 3, 4, 8]");
  check_throws(
      "key and value lengths",
      [&] {
        nn::scaled_dot_product_attention(q, k, tg::ones({2, 3, 5, 8}));
      },
      "value", "[2, 3, 5, 8]", "[2, 3, 6, 8]");
  check_throws(
      "a mask that does not broadcast",
      [&] {
        nn::scaled_dot_product_attention(q, k, v, tg::ones({3, 3}));
      },
      "mask", "[3, 3]", "[2, 3, 4, 6]");
  return finish();
}
