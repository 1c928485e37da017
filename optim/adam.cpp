#include <tapegrad/optim/adam.hpp>

#include <tapegrad/core/kernels/optimizer_steps.hpp>

namespace tapegrad::optim {

template <bool decoupled>
AdamOf<decoupled>::AdamOf(std::vector<ParamGroup> groups, const Options& options)
    : Optimizer(decoupled ? "AdamW" : "Adam", {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .betas = options.betas,
                 .eps = options.eps,
                 .amsgrad = options.amsgrad,
                 .maximize = options.maximize}) {
  start(std::move(groups));
}

template <bool decoupled>
void AdamOf<decoupled>::update(const Item& item, std::int64_t begin, std::int64_t end) const {
  const auto& [mean, square, largest] = item.state->slots;
  const ParamGroup& group = *item.group;
  core::kernels::adam_step({begin, end}, item.parameter, item.gradient, mean, square,
                           *group.amsgrad ? largest : core::Array(),
                           {.lr = *group.lr,
                            .beta1 = group.betas->first,
                            .beta2 = group.betas->second,
                            .eps = *group.eps,
                            .weight_decay = *group.weight_decay,
                            .decoupled = decoupled,
                            .maximize = *group.maximize,
                            .number = item.state->steps});
}

template class AdamOf<false>;
template class AdamOf<true>;

}  // namespace tapegrad::optim
