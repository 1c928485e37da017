// Windows of a text as batches: what a model sees and what it must predict.
#pragma once
#include <functional>
#include <vector>

#include "model.hpp"

namespace toy_lm {

using Batch = tg::data::TextBatch;

/// Windows that start anywhere, from this thread's random generator.
Batch random_batch(const std::vector<std::int64_t>& tokens, std::int64_t batch, std::int64_t context);

/// The mean loss over the text cut into windows of the model's context, without dropout. Windows overlap by `unscored`
/// characters, fewer than the context, that are only read: what is predicted has at least so many before it. With
/// `most_windows`: over so many windows, evenly spread, always the same ones.
/// `before_batch` is called now and then, and may end it by an exception.
double evaluate(const Gpt& model, const std::vector<std::int64_t>& tokens, std::int64_t most_windows = 0,
                std::int64_t unscored = 0, const std::function<void()>& before_batch = {});

}  // namespace toy_lm
