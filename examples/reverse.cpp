// An encoder and a decoder: the digits of a number go in, the same digits come out backwards. The decoder writes one
// digit at a time; each time its cross-attention has to find the place in the input that comes next.
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

constexpr std::int64_t kDigits = 10, kEnd = 10, kStart = 11, kVocabulary = 12;
constexpr std::int64_t kShortest = 3, kLongest = 10, kWidth = 64, kIgnored = -100;

struct Reverser : nn::Module {
  nn::Embedding source = register_module("source", nn::Embedding(kVocabulary, kWidth));
  nn::Embedding target = register_module("target", nn::Embedding(kVocabulary, kWidth));
  nn::Embedding position = register_module("position", nn::Embedding(kLongest + 2, kWidth));
  nn::TransformerEncoder encoder = register_module("encoder", nn::TransformerEncoder(kWidth, 4, 1, layers()));
  nn::TransformerDecoder decoder = register_module("decoder", nn::TransformerDecoder(kWidth, 4, 1, layers()));
  nn::Linear head = register_module("head", nn::Linear(kWidth, kVocabulary));

  static nn::TransformerLayerOptions layers() { return {.dim_feedforward = 128, .dropout = 0.0}; }

  tg::Tensor encode(const tg::Tensor& ids, const tg::Tensor& lengths) const {  // [N, S] -> [N, S, width]
    return encoder(source(ids) + position(tg::arange(ids.size(1))), {.key_lengths = lengths});
  }
  // What comes after each of the tokens so far: ids [N, L] -> logits [N, L, vocabulary].
  tg::Tensor decode(const tg::Tensor& ids, const tg::Tensor& memory, const tg::Tensor& lengths) const {
    const tg::Tensor x = target(ids) + position(tg::arange(ids.size(1)));
    return head(decoder(x, memory, {.target = {.is_causal = true}, .memory = {.key_lengths = lengths}}));
  }
};

struct Batch {
  tg::Tensor ids, lengths;  // what the encoder reads: [N, S] with an end behind each number, [N]
  tg::Tensor written;       // what the decoder has written before each token, [N, S]
  tg::Tensor wanted;        // what it should write, ending with the end; ignored behind that
};

Batch numbers(std::int64_t count) {
  const std::int64_t size = kLongest + 1;
  const tg::Tensor digits = tg::randint(0, kDigits, {count, size}), place = tg::arange(size);
  const tg::Tensor length = tg::randint(kShortest, kLongest + 1, {count, 1});
  const tg::Tensor is_digit = tg::lt(place, length), is_end = tg::eq(place, length);
  const tg::Tensor ids = tg::where(is_digit, digits, kEnd);
  const tg::Tensor mirrored = tg::gather(ids, 1, tg::where(is_digit, length - 1 - place, place));
  const tg::Tensor wanted = tg::where(tg::logical_or(is_digit, is_end), mirrored, kIgnored);
  const tg::Tensor start = tg::full({count, 1}, kStart, tg::int64);
  return {ids, length.squeeze(1) + 1, tg::cat({start, mirrored.slice(1, 0, size - 1)}, 1), wanted};
}

// The most likely token, again and again: [N, S].
tg::Tensor greedy(const Reverser& model, const Batch& batch) {
  const tg::NoGradGuard no_grad;
  const tg::Tensor memory = model.encode(batch.ids, batch.lengths);
  tg::Tensor written = tg::full({batch.ids.size(0), 1}, kStart, tg::int64);
  while (written.size(1) <= batch.ids.size(1)) {
    const tg::Tensor logits = model.decode(written, memory, batch.lengths).select(1, -1);
    written = tg::cat({written, logits.argmax(-1, true)}, 1);
  }
  return written.slice(1, 1, written.size(1));
}

std::string text(const tg::Tensor& tokens) {
  std::string digits;
  for (const std::int64_t token : tokens.to_vector<std::int64_t>()) {
    if (token >= kDigits || token < 0) break;
    digits += static_cast<char>('0' + token);
  }
  return digits;
}

bool learn(std::int64_t steps, std::int64_t seed) {
  tg::manual_seed(seed);
  Reverser model;
  tg::optim::AdamW optimizer(model.parameters(), {.lr = 3e-3, .weight_decay = 0.01});
  tg::optim::CosineSchedule schedule(optimizer, {.total_steps = steps, .warmup_steps = steps / 10});
  fmt::print("{} parameters\n", model.num_parameters());
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = numbers(64);
    const tg::Tensor logits = model.decode(batch.written, model.encode(batch.ids, batch.lengths), batch.lengths);
    const tg::Tensor loss = nn::cross_entropy(logits.flatten(0, 1), batch.wanted.flatten(), {.ignore_index = kIgnored});
    optimizer.zero_grad();
    loss.backward();
    tg::optim::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    schedule.step();
    if (step % 100 == 0) fmt::print("step {:4}/{}  loss {:.4f}\n", step, steps, loss.item());
  }

  const Batch fresh = numbers(1000);
  const tg::Tensor said = greedy(model, fresh);
  const tg::Tensor right = tg::all(tg::logical_or(tg::eq(said, fresh.wanted), tg::eq(fresh.wanted, kIgnored)), 1);
  for (std::int64_t i = 0; i < 4; ++i)
    fmt::print("{:>12} -> {}\n", text(fresh.ids.select(0, i)), text(said.select(0, i)));
  const double exact = right.to(tg::float64).mean().item();
  fmt::print("{:.1f} % of {} fresh numbers come back exactly\n", 100 * exact, fresh.ids.size(0));
  return exact > 0.99;
}

int main(int argc, char** argv) {
  return arguments::run_training(argc, argv, "reverse", "Learns to write numbers backwards", 500, learn);
}
