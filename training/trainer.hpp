// A training loop for those who want none of their own. It is optional: a plain loop (forward, backward, step) says
// more and hides nothing, and every part of this one can be had alone.
#pragma once
#include <limits>

#include <tapegrad/training/checkpoint.hpp>

namespace tapegrad {

/// The loss of a micro-batch, not yet divided: the sum over its tokens (Reduction::sum), and how many they are (those
/// that are ignored left out).
struct TokenLoss {
  Tensor sum;
  std::int64_t tokens = 0;
};

struct AccumulatedLoss {
  double mean = 0;  // over all tokens; 0 if there is none
  std::int64_t tokens = 0;
};

/// Replaces the gradients by those of the mean loss over all tokens of `count` micro-batches, whatever their sizes: the
/// gradients of the joint batch. One micro-batch's tape lives at a time. ValueError if `count` is less than 1 or tokens
/// are negative.
AccumulatedLoss accumulate_gradients(const Tensors& parameters, std::int64_t count,
                                     const std::function<TokenLoss()>& loss);

/// "encoder.weight (its gradient is not finite)": the first parameter whose value, else whose gradient, has a NaN or an
/// infinity; empty if there is none.
std::string first_not_finite(const nn::Module& module);

struct TrainerOptions {
  std::int64_t steps = 0;
  /// The next micro-batch's loss.
  std::function<TokenLoss()> loss = {};
  /// Micro-batches of a step.
  std::int64_t accumulate = 1;
  double clip_norm = std::numeric_limits<double>::infinity();
  /// As a schedule's step and an Ema's update.
  std::function<void()> after_step = {};
  /// A loss, the lower the better; called without recording and with the module in evaluation mode.
  std::function<double()> evaluate = {};
  /// Every so many steps, and after the last one: evaluation, a row of metrics, a checkpoint.
  std::int64_t evaluate_every = 100;
  /// Stop after so many evaluations in a row that were no better than the best; 0: never.
  std::int64_t patience = 0;
  /// Ends the run after the step that is under way, as after Ctrl-C; it is saved.
  std::function<bool()> stop = {};
  /// Where metrics.csv, metrics.jsonl, step-<number>.safetensors and best.safetensors go; empty: nothing is written. A
  /// run that does not resume must not find step files of another there.
  std::string folder = {};
  /// How many of the step files stay.
  std::int64_t keep_last = 2;
  /// What else remembers: schedule, average, data.
  CheckpointParts parts = {};
  /// Go on from the folder's last step file, if there is one: the run then equals one that was not stopped.
  bool resume = false;
  /// Lines on standard output.
  bool progress = true;
};

struct TrainingResult {
  std::int64_t steps = 0;                                        // done, with those before resuming
  double evaluation = std::numeric_limits<double>::quiet_NaN();  // the last one
  double best = std::numeric_limits<double>::infinity();
  std::int64_t best_step = 0;
};

/// Trains. Before a step with a loss or a gradient that is not finite it throws NonFiniteError with the step's number
/// and the first parameter at fault; the checkpoints stay as they are. ValueError for options out of range, and for a
/// metrics.csv of other columns to go on from.
TrainingResult train(nn::Module& module, optim::Optimizer& optimizer, const TrainerOptions& options);

}  // namespace tapegrad
