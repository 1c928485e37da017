// The settings of a ParamGroup by name, as tensors of a state dict, and as kernels take them. Private to the library.
#pragma once
#include <tuple>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/core/kernels/optimizer_steps.hpp>
#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad::optim {

/// visit(name, member) for every setting; `member` points to an std::optional of ParamGroup.
template <class Visit>
void each_setting(const Visit& visit) {
  using G = ParamGroup;
  visit("lr", &G::lr);
  visit("weight_decay", &G::weight_decay);
  visit("momentum", &G::momentum);
  visit("dampening", &G::dampening);
  visit("nesterov", &G::nesterov);
  visit("betas", &G::betas);
  visit("eps", &G::eps);
  visit("amsgrad", &G::amsgrad);
  visit("alpha", &G::alpha);
  visit("centered", &G::centered);
  visit("maximize", &G::maximize);
  visit("ns_steps", &G::ns_steps);
  visit("adjust_lr", &G::adjust_lr);
  visit("use_muon", &G::use_muon);
}

inline Tensor encoded(double value) { return tensor(value, float64); }
inline Tensor encoded(bool value) { return tensor(value); }
inline Tensor encoded(std::int64_t value) { return tensor(value); }
inline Tensor encoded(AdjustLr value) { return encoded(static_cast<std::int64_t>(value)); }
inline Tensor encoded(const std::pair<double, double>& value) { return tensor({value.first, value.second}, float64); }

inline void decode(const Tensor& from, std::pair<double, double>& to) {
  const std::vector<double> values = from.to_vector<double>();
  to = {values[0], values[1]};
}
template <class T>
void decode(const Tensor& from, T& to) {
  to = static_cast<T>(from.item());
}

/// Of an Optimizer's item.
template <class Item>
core::kernels::Step step_of(const Item& item) {
  const ParamGroup& group = *item.group;
  const auto [beta1, beta2] = group.betas.value_or(std::pair(0.0, 0.0));
  return {.lr = *group.lr,
          .weight_decay = *group.weight_decay,
          .momentum = group.momentum.value_or(0.0),
          .dampening = group.dampening.value_or(0.0),
          .beta1 = beta1,
          .beta2 = beta2,
          .eps = group.eps.value_or(0.0),
          .alpha = group.alpha.value_or(0.0),
          .nesterov = group.nesterov.value_or(false),
          .maximize = group.maximize.value_or(false),
          .first = item.first,
          .number = item.state->steps};
}

}  // namespace tapegrad::optim
