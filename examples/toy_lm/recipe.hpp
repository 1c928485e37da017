// How a model is trained: optimizers and schedules by their names, and settings that are known to go well together.
#pragma once
#include <memory>

#include "training.hpp"

namespace toy_lm {

/// Matrices decay (embeddings are matrices), vectors don't. With "muon" the matrices of the blocks are Muon's, at
/// --muon-lr, and the rest is AdamW's.
std::unique_ptr<tg::optim::Optimizer> make_optimizer(const Gpt& model, const TrainOptions& options);

/// Linear warm-up, then half a cosine.
tg::optim::Curve make_schedule(const TrainOptions& options);

/// What learns most in the steps, batch, context and parameters of the defaults; sets what makes the difference and
/// leaves the rest.
void use_best_recipe(TrainOptions& options);

}  // namespace toy_lm
