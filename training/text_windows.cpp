#include <tapegrad/training/text_windows.hpp>

#include <utility>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::data {
namespace {

std::int64_t checked_places(const Tokens& tokens, const TextWindowsOptions& options) {
  require(options.batch_size >= 1 && options.context >= 1 && tokens.size() > options.context,
          "TextWindows: batch_size and context must be at least 1, and the text longer than the context; got "
          "batch_size {}, context {} and {} tokens; give more text or a smaller context",
          options.batch_size, options.context, tokens.size());
  return tokens.size() - options.context;
}

}  // namespace

TextBatch text_batch(const Tokens& tokens, const std::vector<std::int64_t>& starts, std::int64_t context) {
  const Shape shape = {static_cast<std::int64_t>(starts.size()), context};
  TextBatch batch{empty(shape, int64), empty(shape, int64)};
  std::vector<std::int64_t> window(static_cast<std::size_t>(context) + 1);
  auto* ids = batch.ids.array().data<std::int64_t>();
  auto* targets = batch.targets.array().data<std::int64_t>();
  for (std::int64_t start : starts) {
    tokens.copy(start, window);
    ids = std::copy(window.begin(), window.end() - 1, ids);
    targets = std::copy(window.begin() + 1, window.end(), targets);
  }
  return batch;
}

TextWindows::TextWindows(const Tokens& tokens, const TextWindowsOptions& options)
    : stream_(
          "TextWindows", {{"tokens", tokens.size()}, {"batch_size", options.batch_size}, {"context", options.context}},
          options.seed, options.prefetch, [tokens, options, places = checked_places(tokens, options)](std::int64_t) {
            const Tensor starts = randint(0, places, {options.batch_size});
            auto [ids, targets] = text_batch(tokens, starts.to_vector<std::int64_t>(), options.context);
            return Tensors{std::move(ids), std::move(targets)};
          }) {}

TextBatch TextWindows::next() {
  Tensors batch = stream_.next();
  return {std::move(batch[0]), std::move(batch[1])};
}

TextBlocks::TextBlocks(Tokens tokens, std::int64_t context) : tokens_(std::move(tokens)), context_(context) {
  require(context >= 1, "TextBlocks: the context must be at least 1; got {}", context);
}

Tensors TextBlocks::get(const Rows& rows) const {
  std::vector<std::int64_t> starts;
  for (std::int64_t row : rows) starts.push_back(row * context_);
  const TextBatch batch = text_batch(tokens_, starts, context_);
  return {batch.ids, batch.targets};
}

}  // namespace tapegrad::data
