// Proof that stopping changes nothing: a run in one piece, and the same in two processes, compared bit for bit.
#pragma once
#include <optional>

#include "training.hpp"

namespace toy_lm {

/// Trains all steps; and in other processes half of them, then the rest from the checkpoint. Prints what was equal.
/// std::runtime_error that names what differs, or if a run failed; Interrupted. Nothing is kept.
void verify_resume(const TrainOptions& options, std::optional<int> threads);

}  // namespace toy_lm
