// An encoder alone, which looks both ways: gaps in palindromes are filled in. What is missing stands on the other side,
// in front of the gap or behind it, so that a model that looks back only could fill in half of them.
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

constexpr std::int64_t kDigits = 10, kGap = 10, kHalf = 6, kWidth = 64, kIgnored = -100;

struct Filler : nn::Module {
  nn::Embedding token = register_module("token", nn::Embedding(kDigits + 1, kWidth));
  nn::Embedding position = register_module("position", nn::Embedding(2 * kHalf, kWidth));
  nn::TransformerEncoder encoder =
      register_module("encoder", nn::TransformerEncoder(kWidth, 4, 1, {.dim_feedforward = 128, .dropout = 0.0}));
  nn::Linear head = register_module("head", nn::Linear(kWidth, kDigits));

  // ids [N, L] -> logits [N, L, digits]
  tg::Tensor forward(const tg::Tensor& ids) const {
    return head(encoder(token(ids) + position(tg::arange(ids.size(1)))));
  }
};

struct Batch {
  tg::Tensor ids;     // palindromes with gaps, [N, L]
  tg::Tensor wanted;  // the digits of the gaps; ignored elsewhere
};

Batch palindromes(std::int64_t count) {
  const tg::Tensor half = tg::randint(0, kDigits, {count, kHalf}), digits = tg::cat({half, tg::flip(half, {1})}, 1);
  const tg::Tensor gap = tg::randint(0, 3, {count, kHalf});  // of a pair of digits: none, the left or the right one
  const tg::Tensor is_gap = tg::cat({tg::eq(gap, 1), tg::flip(tg::eq(gap, 2), {1})}, 1);
  return {tg::where(is_gap, kGap, digits), tg::where(is_gap, digits, kIgnored)};
}

std::string text(const tg::Tensor& tokens) {
  std::string digits;
  for (const std::int64_t token : tokens.to_vector<std::int64_t>())
    digits += token == kGap ? '_' : static_cast<char>('0' + token);
  return digits;
}

bool learn(std::int64_t steps, std::int64_t seed) {
  tg::manual_seed(seed);
  Filler model;
  tg::optim::AdamW optimizer(model.parameters(), {.lr = 3e-3, .weight_decay = 0.01});
  tg::optim::CosineSchedule schedule(optimizer, {.total_steps = steps, .warmup_steps = steps / 10});
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = palindromes(64);
    const tg::Tensor loss =
        nn::cross_entropy(model.forward(batch.ids).flatten(0, 1), batch.wanted.flatten(), {.ignore_index = kIgnored});
    optimizer.zero_grad();
    loss.backward();
    tg::optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    schedule.step();
    if (step % 100 == 0) fmt::print("step {:4}/{}  loss {:.4f}\n", step, steps, loss.item());
  }

  const tg::NoGradGuard no_grad;
  const Batch fresh = palindromes(1000);
  const tg::Tensor said = model.forward(fresh.ids).argmax(-1), is_gap = tg::eq(fresh.ids, kGap);
  const tg::Tensor filled = tg::where(is_gap, said, fresh.ids);
  for (std::int64_t i = 0; i < 4; ++i)
    fmt::print("{} -> {}\n", text(fresh.ids.select(0, i)), text(filled.select(0, i)));
  const tg::Tensor right = tg::logical_and(is_gap, tg::eq(said, fresh.wanted));
  const double share = right.to(tg::float64).sum().item() / is_gap.to(tg::float64).sum().item();
  fmt::print("{:.1f} % of the gaps in {} fresh palindromes are filled in right\n", 100 * share, fresh.ids.size(0));
  return share > 0.99;
}

int main(int argc, char** argv) {
  return arguments::run_training(argc, argv, "fill_in", "Learns to fill the gaps in palindromes", 600, learn);
}
