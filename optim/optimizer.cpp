#include <tapegrad/optim/optimizer.hpp>

#include <cmath>
#include <unordered_set>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/span.hpp>

namespace tapegrad::optim {

Optimizer::Optimizer(const char* name, std::vector<ParamGroup> groups, double lr, double weight_decay) : name_(name) {
  std::unordered_set<const autograd::TensorBody*> seen;
  for (ParamGroup& group : groups) {
    for (const Tensor& parameter : group.parameters) {
      if (!is_floating(parameter.dtype()))
        throw DtypeError(fmt::format("{}: parameters must be float32 or float64; got {}", name, parameter.dtype()));
      if (!parameter.is_leaf())
        throw GradError(fmt::format("{}: parameters must be leaves; got a result of shape {}; pass what it comes from",
                                    name, parameter.shape()));
      if (!seen.insert(parameter.body()).second)
        throw ValueError(fmt::format("{}: each parameter must be given once; one of shape {} was given twice", name,
                                     parameter.shape()));
      for (int axis = 0; axis < parameter.rank(); ++axis)
        if (parameter.shape()[axis] > 1 && parameter.array().strides()[axis] == 0)
          throw ValueError(fmt::format("{}: parameters must not be expanded; got one of shape {}; clone() it first",
                                       name, parameter.shape()));
    }
    groups_.push_back({std::move(group.parameters), group.lr.value_or(lr), group.weight_decay.value_or(weight_decay)});
    check_not_negative("lr", groups_.back().lr);
    check_not_negative("weight_decay", groups_.back().weight_decay);
  }
  if (seen.empty())
    throw ValueError(
        fmt::format("{}: expected parameters; got none; register the model's parts (register_module)", name));
  parameter_count_ = seen.size();
}

template <class Visit>
void Optimizer::visit_gradients(const Visit& visit) {
  std::size_t index = 0;
  for (const Group& group : groups_)
    for (const Tensor& parameter : group.parameters) {
      const Tensor gradient = parameter.grad();
      if (gradient.defined()) visit(index, parameter, gradient.array(), group);
      ++index;
    }
}

void Optimizer::step() {
  const auto span = autograd::Span::outside(name_, ".step");
  NoGradGuard no_grad;
  visit_gradients([&](std::size_t index, const Tensor& parameter, const core::Array& gradient, const Group&) {
    for (const auto& [what, array] : {std::pair{"gradient", gradient}, {"state", state(index)}}) {
      const bool same_shape = array.shape() == parameter.shape();
      if (!array.defined() || (same_shape && array.dtype() == parameter.dtype())) continue;
      const std::string text =
          fmt::format("{}: a {} must be like its parameter, {} {}; got {} {}; make a new optimizer after Module::to",
                      name_, what, parameter.dtype(), parameter.shape(), array.dtype(), array.shape());
      if (same_shape) throw DtypeError(text);
      throw ShapeError(text);
    }
  });
  visit_gradients([&](std::size_t index, const Tensor& parameter, const core::Array& gradient, const Group& group) {
    const core::Array& memory = parameter.mutable_array();
    const core::Array flat = memory.contiguous();
    update(index, flat, gradient.contiguous(), group);
    if (!memory.is_contiguous()) core::copy_into(memory, flat);
  });
}

void Optimizer::zero_grad() const {
  const auto span = autograd::Span::outside(name_, ".zero_grad");
  for (const Group& group : groups_)
    for (const Tensor& parameter : group.parameters) parameter.set_grad({});
}

void Optimizer::set_lr(double lr) {
  for (std::size_t group = 0; group < groups_.size(); ++group) set_lr(lr, group);
}

void Optimizer::set_lr(double lr, std::size_t group) {
  check_not_negative("lr", lr);
  groups_[checked(group)].lr = lr;
}

std::size_t Optimizer::checked(std::size_t group) const {
  if (group < groups_.size()) return group;
  throw IndexError(fmt::format("{}: the group must be one of {}; got {}", name_, groups_.size(), group));
}

void Optimizer::check_not_negative(const char* setting, double value) const {
  if (!(value >= 0 && std::isfinite(value)))
    throw ValueError(fmt::format("{}: {} must be finite and not negative; got {}", name_, setting, value));
}

}  // namespace tapegrad::optim
