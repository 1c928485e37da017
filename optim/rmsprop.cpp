#include <tapegrad/optim/rmsprop.hpp>

#include <tapegrad/core/require.hpp>
#include <tapegrad/optim/settings.hpp>

namespace tapegrad::optim {

RMSprop::RMSprop(std::vector<ParamGroup> groups, const RMSpropOptions& options)
    : Optimizer("RMSprop", {"square_avg", "momentum_buffer", "grad_avg"},
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .momentum = options.momentum,
                 .eps = options.eps,
                 .alpha = options.alpha,
                 .centered = options.centered,
                 .maximize = options.maximize}) {
  start(std::move(groups));
}

void RMSprop::check(const ParamGroup& group) const {
  require(*group.alpha <= 1, "RMSprop: alpha must be in [0, 1]; got {}", *group.alpha);
}

void RMSprop::update(const Item& item, std::int64_t begin, std::int64_t end) const {
  const auto& [square, buffer, mean] = item.state->slots;
  const ParamGroup& group = *item.group;
  core::kernels::rmsprop_step({begin, end}, item.parameter, item.gradient, square,
                              *group.momentum > 0 ? buffer : core::Array(), *group.centered ? mean : core::Array(),
                              step_of(item));
}

}  // namespace tapegrad::optim
