// Windows of a text as batches: what a model sees and what it must predict.
#pragma once
#include <vector>

#include "model.hpp"

namespace toy_lm {

struct Batch {
  tg::Tensor ids;      // [batch, context]
  tg::Tensor targets;  // the same, one token later
};

/// Windows that start anywhere, from this thread's random generator.
Batch random_batch(const std::vector<std::int64_t>& tokens, std::int64_t batch, std::int64_t context);

/// The mean loss over the text cut into windows of the model's context that don't overlap, without dropout. With
/// `most_windows`: over so many of them, evenly spread, always the same ones.
double evaluate(Gpt model, const std::vector<std::int64_t>& tokens, std::int64_t most_windows = 0);

}  // namespace toy_lm
