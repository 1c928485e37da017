// What can be wrong with a training run, before it and in its midst.
#pragma once
#include <string>

#include "training.hpp"

namespace toy_lm {

/// BadInput for an option outside its range.
void check(const TrainOptions& options);
/// "step 7: the loss is nan; ...", with the first parameter whose value, else whose gradient, is not finite, and where
/// what was saved last.
std::string describe_not_finite(const Gpt& model, std::int64_t step, const std::string& what, double value,
                                std::int64_t saved_step);
/// std::runtime_error with that description if a parameter is not finite: such a model must not be saved.
void check_finite(const Gpt& model, std::int64_t step, std::int64_t saved_step);
/// Clips the norm of all gradients together and returns what it was. std::runtime_error with that description, and all
/// gradients as they were, if the norm is not finite.
double clip_gradients(const Gpt& model, double max_norm, std::int64_t step, std::int64_t saved_step);

}  // namespace toy_lm
