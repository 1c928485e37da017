#include "batches.hpp"

#include <algorithm>

namespace toy_lm {
namespace {

/// The first `unscored` targets of each window are those that the loss ignores.
Batch batch_at(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& starts, std::int64_t context,
               std::int64_t unscored = 0) {
  std::vector<std::int64_t> ids, targets;
  for (std::int64_t start : starts) {
    ids.insert(ids.end(), tokens.begin() + start, tokens.begin() + start + context);
    targets.insert(targets.end(), static_cast<std::size_t>(unscored), nn::CrossEntropyOptions{}.ignore_index);
    targets.insert(targets.end(), tokens.begin() + start + unscored + 1, tokens.begin() + start + context + 1);
  }
  const tg::Shape shape = {static_cast<std::int64_t>(starts.size()), context};
  return {tg::from_vector(ids, shape), tg::from_vector(targets, shape)};
}

}  // namespace

Batch random_batch(const std::vector<std::int64_t>& tokens, std::int64_t batch, std::int64_t context) {
  const auto starts = tg::randint(0, static_cast<std::int64_t>(tokens.size()) - context, {batch});
  return batch_at(tokens, starts.to_vector<std::int64_t>(), context);
}

double evaluate(const Gpt& model, const std::vector<std::int64_t>& tokens, std::int64_t most_windows,
                std::int64_t unscored, const std::function<void()>& before_batch) {
  constexpr std::int64_t kBatch = 16;
  const tg::NoGradGuard no_grad;
  const nn::EvalGuard evaluation(model);
  const std::int64_t context = model.config().context;
  const std::int64_t stride = context - unscored;
  const std::int64_t windows = (static_cast<std::int64_t>(tokens.size()) - 1 - unscored) / stride;
  const std::int64_t used = most_windows > 0 ? std::min(most_windows, windows) : windows;
  double sum = 0;
  for (std::int64_t first = 0; first < used; first += kBatch) {
    if (before_batch) before_batch();
    std::vector<std::int64_t> starts;
    for (std::int64_t i = first; i < std::min(first + kBatch, used); ++i) starts.push_back(i * windows / used * stride);
    const Batch batch = batch_at(tokens, starts, context, unscored);
    sum += model.loss(batch.ids, batch.targets).item() * static_cast<double>(starts.size());
  }
  return sum / static_cast<double>(used);
}

}  // namespace toy_lm
