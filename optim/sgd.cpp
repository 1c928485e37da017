#include <tapegrad/optim/sgd.hpp>

#include <fmt/format.h>

#include <tapegrad/core/kernels/optimizer_steps.hpp>

namespace tapegrad::optim {

SGD::SGD(Tensors parameters, const SGDOptions& options)
    : SGD(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}

SGD::SGD(std::vector<ParamGroup> groups, const SGDOptions& options)
    : Optimizer("SGD", std::move(groups), options.lr, options.weight_decay),
      options_(options),
      momentum_buffers_(parameter_count()) {
  check_not_negative("momentum", options.momentum);
  check_not_negative("dampening", options.dampening);
  if (options.nesterov && !(options.momentum > 0 && options.dampening == 0))
    throw ValueError(fmt::format("SGD: nesterov needs momentum > 0 and dampening = 0; got {} and {}", options.momentum,
                                 options.dampening));
}

void SGD::update(std::size_t index, const core::Array& parameter, const core::Array& gradient, const Group& group) {
  core::Array& buffer = momentum_buffers_[index];
  const bool first = !buffer.defined();
  if (first && options_.momentum != 0) buffer = core::Array(parameter.shape(), parameter.dtype());
  core::kernels::sgd_step(parameter, gradient, buffer,
                          {.lr = group.lr,
                           .momentum = options_.momentum,
                           .dampening = options_.dampening,
                           .weight_decay = group.weight_decay,
                           .nesterov = options_.nesterov,
                           .maximize = options_.maximize,
                           .first = first});
}

}  // namespace tapegrad::optim
