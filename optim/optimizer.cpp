#include <tapegrad/optim/optimizer.hpp>

#include <unordered_set>

#include <fmt/format.h>

namespace tapegrad::optim {

Optimizer::Optimizer(const char* name, std::vector<ParamGroup> groups, double lr, double weight_decay) : name_(name) {
  std::unordered_set<const autograd::TensorBody*> seen;
  for (ParamGroup& group : groups) {
    for (const Tensor& parameter : group.parameters) {
      if (!is_floating(parameter.dtype()))
        throw DtypeError(
            fmt::format("{}: parameters must be float32 or float64; got {}", name, name_of(parameter.dtype())));
      if (!parameter.is_leaf())
        throw GradError(
            fmt::format("{}: parameters must be leaves, which gradients are accumulated into; got the result of "
                        "an operation, of shape {}; pass what it was computed from",
                        name, parameter.shape().to_string()));
      if (!seen.insert(parameter.body()).second)
        throw ValueError(fmt::format("{}: each parameter must be given once; one of shape {} was given twice", name,
                                     parameter.shape().to_string()));
    }
    groups_.push_back({std::move(group.parameters), group.lr.value_or(lr), group.weight_decay.value_or(weight_decay)});
    check_not_negative("lr", groups_.back().lr);
    check_not_negative("weight_decay", groups_.back().weight_decay);
  }
  if (seen.empty())
    throw ValueError(
        fmt::format("{}: there must be at least one parameter; got an empty list; are the model's parts "
                    "registered with register_module?",
                    name));
}

void Optimizer::step() {
  NoGradGuard no_grad;
  std::size_t index = 0;
  for (const Group& group : groups_)
    for (const Tensor& parameter : group.parameters) {
      const std::size_t own = index++;
      const Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      const core::Array& memory = parameter.mutable_array();
      const core::Array flat = memory.contiguous();
      update(own, flat, gradient.array().contiguous(), group);
      if (!memory.is_contiguous()) core::copy_into(memory, flat);
    }
}

void Optimizer::zero_grad() const {
  for (const Group& group : groups_)
    for (const Tensor& parameter : group.parameters) parameter.set_grad({});
}

void Optimizer::set_lr(double lr) {
  for (std::size_t group = 0; group < groups_.size(); ++group) set_lr(lr, group);
}

void Optimizer::set_lr(double lr, std::size_t group) {
  check_not_negative("lr", lr);
  groups_.at(group).lr = lr;
}

void Optimizer::check_not_negative(const char* setting, double value) const {
  if (!(value >= 0)) throw ValueError(fmt::format("{}: {} must not be negative; got {}", name_, setting, value));
}

std::size_t Optimizer::parameter_count() const {
  std::size_t count = 0;
  for (const Group& group : groups_) count += group.parameters.size();
  return count;
}

}  // namespace tapegrad::optim
