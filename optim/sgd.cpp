#include <tapegrad/optim/sgd.hpp>

#include <tapegrad/core/require.hpp>
#include <tapegrad/optim/settings.hpp>

namespace tapegrad::optim {

SGD::SGD(std::vector<ParamGroup> groups, const SGDOptions& options)
    : Optimizer("SGD", {"momentum_buffer"},
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .momentum = options.momentum,
                 .dampening = options.dampening,
                 .nesterov = options.nesterov,
                 .maximize = options.maximize}) {
  start(std::move(groups));
}

void SGD::check(const ParamGroup& group) const {
  require(!*group.nesterov || (*group.momentum > 0 && *group.dampening == 0),
          "SGD: nesterov needs momentum > 0 and dampening = 0; got {} and {}", *group.momentum, *group.dampening);
}

std::array<bool, Optimizer::kSlots> SGD::needs(const ParamGroup& group) const { return {*group.momentum != 0}; }

void SGD::update(const Item& item, std::int64_t begin, std::int64_t end) const {
  const core::Array buffer = *item.group->momentum != 0 ? item.state->slots[0] : core::Array();
  core::kernels::sgd_step({begin, end}, item.parameter, item.gradient, buffer, step_of(item));
}

}  // namespace tapegrad::optim
