#include "train_checks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "bad_input.hpp"
#include "settings.hpp"

namespace toy_lm {
namespace {

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
  each_setting(options, [](const char* option, const auto& value, const auto& range) { check(option, value, range); });
  if (options.batch % options.accumulate != 0)
    throw BadInput(fmt::format("--accumulate: must divide --batch; got {} parts of a batch of {}", options.accumulate,
                               options.batch));
  if (options.model.width % options.model.heads != 0)
    throw BadInput(fmt::format("--heads: must divide --width; got {} heads and width {}", options.model.heads,
                               options.model.width));
  if (options.min_lr > options.lr)
    throw BadInput(
        fmt::format("--min-lr: must be at most --lr; got --min-lr {} and --lr {}; give smaller rates or leave "
                    "--min-lr out",
                    options.min_lr, options.lr));
  check_memory(options);
}

std::string describe_not_finite(const Gpt& model, std::int64_t step, const std::string& what, double value,
                                std::int64_t saved_step) {
  const std::string parameter = tg::first_not_finite(model);
  const std::string fault =
      parameter.empty() ? "no parameter and no gradient is at fault" : "the first parameter at fault is " + parameter;
  const std::string kept =
      saved_step > 0 ? fmt::format("what was saved at step {} stays", saved_step) : "no step was saved";
  const double shown = std::isnan(value) ? std::abs(value) : value;  // a NaN's sign says nothing
  return fmt::format("step {}: the {} is {}; {}; {}; try a smaller --lr", step, what, shown, fault, kept);
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
