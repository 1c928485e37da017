#include <tapegrad/optim/adam.hpp>

#include <tapegrad/optim/settings.hpp>

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
  core::kernels::adam_step({begin, end}, item.parameter, item.gradient, mean, square,
                           *item.group->amsgrad ? largest : core::Array(), decoupled, step_of(item));
}

template class AdamOf<false>;
template class AdamOf<true>;

}  // namespace tapegrad::optim
