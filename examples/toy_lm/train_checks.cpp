#include "train_checks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "bad_input.hpp"

namespace toy_lm {
namespace {

void in_range(const char* option, double value, bool fits, const char* range) {
  if (!fits || !std::isfinite(value)) throw BadInput(fmt::format("{}: must be {}; got {}", option, range, value));
}

/// Refuses what this machine can't hold, by what is needed at the least: each parameter with its gradient and two
/// moments, and for each token and block a dozen vectors that the backward sweep reads.
void check_memory(const TrainOptions& options) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double width = real(options.model.width), layers = real(options.model.layers);
  const double parameters = width * (12 * width * layers + real(options.model.context));
  const double kept = 12 * width * layers * real(options.batch) * real(options.model.context);
  const double needed = sizeof(float) * (4 * parameters + kept);
  const double there = real(::sysconf(_SC_PHYS_PAGES)) * real(::sysconf(_SC_PAGESIZE));
  constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
  if (needed > there)
    throw BadInput(
        fmt::format("--batch, --context, --layers, --width: the run must fit into memory; {}, {}, {} and {} take "
                    "at least {:.3g} GiB, and this machine has {:.3g}; take smaller ones",
                    options.batch, options.model.context, options.model.layers, options.model.width, needed / kGibibyte,
                    there / kGibibyte));
}

}  // namespace

void check(const TrainOptions& options) {
  at_least("--steps", options.steps, 1);
  at_least("--vocabulary", options.vocabulary, 256);
  if (options.vocabulary > INT32_MAX)
    throw BadInput(fmt::format("--vocabulary: must be at most {}; got {}", INT32_MAX, options.vocabulary));
  at_least("--batch", options.batch, 1);
  at_least("--accumulate", options.accumulate, 1);
  if (options.batch % options.accumulate != 0)
    throw BadInput(fmt::format("--accumulate: must divide --batch; got {} parts of a batch of {}", options.accumulate,
                               options.batch));
  at_least("--context", options.model.context, 1);
  at_least("--layers", options.model.layers, 1);
  at_least("--heads", options.model.heads, 1);
  at_least("--width", options.model.width, 1);
  at_least("--warmup", options.warmup, 0);
  at_least("--schedule-steps", options.schedule_steps, 0);
  at_least("--eval-every", options.eval_every, 1);
  at_least("--save-every", options.save_every, 0);
  at_least("--seed", options.seed, 0);
  if (options.model.width % options.model.heads != 0)
    throw BadInput(fmt::format("--heads: must divide --width; got {} heads and width {}", options.model.heads,
                               options.model.width));
  in_range("--dropout", options.model.dropout, options.model.dropout >= 0 && options.model.dropout < 1, "in [0, 1)");
  in_range("--lr", options.lr, options.lr > 0, "above 0");
  in_range("--muon-lr", options.muon_lr, options.muon_lr > 0, "above 0");
  in_range("--min-lr", options.min_lr, options.min_lr >= 0 && options.min_lr <= options.lr, "from 0 to --lr");
  in_range("--weight-decay", options.weight_decay, options.weight_decay >= 0, "at least 0");
  in_range("--beta2", options.beta2, options.beta2 >= 0 && options.beta2 < 1, "in [0, 1)");
  in_range("--ema", options.ema, options.ema >= 0 && options.ema < 1, "in [0, 1)");
  in_range("--clip", options.clip, options.clip > 0, "above 0");
  check_memory(options);
}

std::string describe_not_finite(const Gpt& model, std::int64_t step, const std::string& what, double value,
                                std::int64_t saved_step) {
  const std::string parameter = tg::first_not_finite(model);
  const std::string fault =
      parameter.empty() ? "no parameter and no gradient is at fault" : "the first parameter at fault is " + parameter;
  const std::string kept =
      saved_step > 0 ? fmt::format("what was saved at step {} stays", saved_step) : "nothing was saved";
  return fmt::format("step {}: the {} is {}; {}; {}; try a smaller --lr", step, what, value, fault, kept);
}

void check_finite(const Gpt& model, std::int64_t step, std::int64_t saved_step) {
  if (!tg::first_not_finite(model).empty())
    throw std::runtime_error(describe_not_finite(model, step, "update", NAN, saved_step));
}

double clip_gradients(const Gpt& model, double max_norm, std::int64_t step, std::int64_t saved_step) {
  const tg::Tensors parameters = model.parameters();
  try {
    return tg::optim::clip_grad_norm(parameters, max_norm, {.error_if_nonfinite = true});
  } catch (const tg::ValueError&) {
    double squares = 0;
    for (const tg::Tensor& parameter : parameters)
      if (const tg::Tensor gradient = parameter.grad(); gradient.defined())
        squares += tg::sum(tg::square(gradient.detach().to(tg::float64))).item();
    throw std::runtime_error(describe_not_finite(model, step, "gradient norm", std::sqrt(squares), saved_step));
  }
}

}  // namespace toy_lm
