#include <tapegrad/optim/adam.hpp>

#include <fmt/format.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/core/kernels/optimizer_steps.hpp>

namespace tapegrad::optim {
namespace {

std::vector<ParamGroup> one_group(Tensors parameters) { return {{.parameters = std::move(parameters)}}; }

AdamOptions without_decoupling(const AdamWOptions& options) {
  return {options.lr, options.betas, options.eps, options.weight_decay, options.amsgrad, options.maximize};
}

core::Array zeros_like(const core::Array& like) { return zeros(like.shape(), like.dtype()).array(); }

}  // namespace

AdamBase::AdamBase(const char* name, std::vector<ParamGroup> groups, const AdamOptions& options, bool decoupled)
    : Optimizer(name, std::move(groups), options.lr, options.weight_decay),
      options_(options),
      decoupled_(decoupled),
      states_(parameter_count()) {
  for (const double beta : {options.betas.first, options.betas.second})
    if (!(beta >= 0 && beta < 1)) throw ValueError(fmt::format("{}: betas must be in [0, 1); got {}", name, beta));
  check_not_negative("eps", options.eps);
}

void AdamBase::update(std::size_t index, const core::Array& parameter, const core::Array& gradient,
                      const Group& group) {
  State& state = states_[index];
  if (state.steps == 0) {
    state.exp_avg = zeros_like(parameter);
    state.exp_avg_sq = zeros_like(parameter);
    if (options_.amsgrad) state.max_exp_avg_sq = zeros_like(parameter);
  }
  ++state.steps;
  core::kernels::adam_step(parameter, gradient, state.exp_avg, state.exp_avg_sq, state.max_exp_avg_sq,
                           {.lr = group.lr,
                            .beta1 = options_.betas.first,
                            .beta2 = options_.betas.second,
                            .eps = options_.eps,
                            .weight_decay = group.weight_decay,
                            .decoupled = decoupled_,
                            .maximize = options_.maximize,
                            .number = state.steps});
}

Adam::Adam(Tensors parameters, const AdamOptions& options) : Adam(one_group(std::move(parameters)), options) {}
Adam::Adam(std::vector<ParamGroup> groups, const AdamOptions& options)
    : AdamBase("Adam", std::move(groups), options, false) {}

AdamW::AdamW(Tensors parameters, const AdamWOptions& options) : AdamW(one_group(std::move(parameters)), options) {}
AdamW::AdamW(std::vector<ParamGroup> groups, const AdamWOptions& options)
    : AdamBase("AdamW", std::move(groups), without_decoupling(options), true) {}

}  // namespace tapegrad::optim
