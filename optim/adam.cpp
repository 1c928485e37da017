#include <tapegrad/optim/adam.hpp>

#include <fmt/format.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/core/kernels/optimizer_steps.hpp>

namespace tapegrad::optim {

template <bool decoupled>
AdamOf<decoupled>::AdamOf(Tensors parameters, const Options& options)
    : AdamOf(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

template <bool decoupled>
AdamOf<decoupled>::AdamOf(std::vector<ParamGroup> groups, const Options& options)
    : Optimizer(kName, std::move(groups), options.lr, options.weight_decay),
      options_(options),
      states_(parameter_count()) {
  for (const double beta : {options.betas.first, options.betas.second})
    if (!(beta >= 0 && beta < 1)) throw ValueError(fmt::format("{}: betas must be in [0, 1); got {}", kName, beta));
  check_not_negative("eps", options.eps);
}

template <bool decoupled>
void AdamOf<decoupled>::update(std::size_t index, const core::Array& parameter, const core::Array& gradient,
                               const Group& group) {
  State& state = states_[index];
  const auto zeros_like = [&] { return zeros(parameter.shape(), parameter.dtype()).array(); };
  if (state.steps == 0) state = {0, zeros_like(), zeros_like(), options_.amsgrad ? zeros_like() : core::Array()};
  ++state.steps;
  core::kernels::adam_step(parameter, gradient, state.exp_avg, state.exp_avg_sq, state.max_exp_avg_sq,
                           {.lr = group.lr,
                            .beta1 = options_.betas.first,
                            .beta2 = options_.betas.second,
                            .eps = options_.eps,
                            .weight_decay = group.weight_decay,
                            .decoupled = decoupled,
                            .maximize = options_.maximize,
                            .number = state.steps});
}

template class AdamOf<false>;
template class AdamOf<true>;

}  // namespace tapegrad::optim
