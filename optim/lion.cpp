#include <tapegrad/optim/lion.hpp>

#include <tapegrad/core/kernels/optimizer_steps.hpp>

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
  const ParamGroup& group = *item.group;
  core::kernels::lion_step({begin, end}, item.parameter, item.gradient, item.state->slots[0],
                           {.lr = *group.lr,
                            .beta1 = group.betas->first,
                            .beta2 = group.betas->second,
                            .weight_decay = *group.weight_decay,
                            .maximize = *group.maximize});
}

}  // namespace tapegrad::optim
