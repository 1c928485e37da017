#include <tapegrad/optim/lion.hpp>

#include <tapegrad/optim/settings.hpp>

namespace tapegrad::optim {

Lion::Lion(std::vector<ParamGroup> groups, const LionOptions& options)
    : Optimizer("Lion", {"exp_avg"},
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .betas = options.betas,
                 .maximize = options.maximize}) {
  start(std::move(groups));
}

void Lion::update(const Item& item, std::int64_t begin, std::int64_t end) const {
  core::kernels::lion_step({begin, end}, item.parameter, item.gradient, item.state->slots[0], step_of(item));
}

}  // namespace tapegrad::optim
