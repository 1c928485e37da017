#include <tapegrad/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/span.hpp>
#include <tapegrad/core/kernels/optimizer_steps.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/core/threads.hpp>
#include <tapegrad/optim/settings.hpp>

namespace tapegrad::optim {

void Optimizer::start(std::vector<ParamGroup> groups) {
  for (ParamGroup& group : groups) add_param_group(std::move(group));
  require(!states_.empty(), "{}: expected parameters; got none; register the model's parts (register_module)", name_);
}

void Optimizer::add_param_group(ParamGroup group) {
  check_parameters(group.parameters);
  ParamGroup own = defaults(group);
  each_setting([&](const char* setting, auto member) {
    if (!(group.*member)) return;
    require((own.*member).has_value(), "{}: a group must have settings of this optimizer; got {}; leave it out", name_,
            setting);
    own.*member = group.*member;
  });
  check_ranges(own);
  own.parameters = std::move(group.parameters);
  check(own);
  states_.resize(states_.size() + own.parameters.size());
  groups_.push_back(std::move(own));
}

void Optimizer::check_parameters(const Tensors& parameters) const {
  std::unordered_set<const autograd::TensorBody*> seen;
  for (const ParamGroup& group : groups_)
    for (const Tensor& parameter : group.parameters) seen.insert(parameter.body());
  for (const Tensor& parameter : parameters) {
    autograd::check_defined(name_, parameter);
    require<DtypeError>(is_floating(parameter.dtype()), "{}: parameters must be float32 or float64; got {}", name_,
                        parameter.dtype());
    require<GradError>(parameter.is_leaf(),
                       "{}: parameters must be leaves; got a result of shape {}; pass what it comes from", name_,
                       parameter.shape());
    require(seen.insert(parameter.body()).second,
            "{}: each parameter must be given once; one of shape {} was given twice", name_, parameter.shape());
    for (int axis = 0; axis < parameter.rank(); ++axis)
      require(parameter.shape()[axis] <= 1 || parameter.array().strides()[axis] != 0,
              "{}: parameters must not be expanded; got one of shape {}; clone() it first", name_, parameter.shape());
  }
}

void Optimizer::check_ranges(const ParamGroup& group) const {
  each_setting([&](const char* setting, auto member) {
    const auto& value = group.*member;
    if (!value) return;
    if constexpr (std::is_same_v<decltype(value), const std::optional<double>&>) {
      require(*value >= 0 && std::isfinite(*value), "{}: {} must be finite and not negative; got {}", name_, setting,
              *value);
    } else if constexpr (std::is_same_v<decltype(value), const std::optional<std::pair<double, double>>&>) {
      for (const double beta : {value->first, value->second})
        require(beta >= 0 && beta < 1, "{}: betas must be in [0, 1); got {}", name_, beta);
    }
  });
}

std::vector<Optimizer::Item> Optimizer::collect() {
  std::vector<Item> items = std::move(items_);
  auto state = states_.begin();
  const auto must_fit = [&](const char* what, const core::Array& array, const Tensor& parameter) {
    const bool same_shape = array.shape() == parameter.shape();
    if (!array.defined() || (same_shape && array.dtype() == parameter.dtype())) return;
    const std::string text =
        fmt::format("{}: a {} must be like its parameter, {} {}; got {} {}; make a new optimizer after Module::to",
                    name_, what, parameter.dtype(), parameter.shape(), array.dtype(), array.shape());
    if (same_shape) throw DtypeError(text);
    throw ShapeError(text);
  };
  for (const ParamGroup& group : groups_)
    for (const Tensor& parameter : group.parameters) {
      State& own = *state++;
      const Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      must_fit("gradient", gradient.array(), parameter);
      for (const core::Array& slot : own.slots) must_fit("state", slot, parameter);
      items.push_back({&parameter, &own, &group, {}, gradient.array(), {}});
    }
  return items;
}

void Optimizer::step() {
  const auto span = autograd::Span::outside(name_, ".step");
  NoGradGuard no_grad;
  std::vector<Item> items = collect();
  for (Item& item : items) {
    item.parameter = item.tensor->array().contiguous();
    item.gradient = item.gradient.contiguous();
    const auto needed = needs(*item.group);
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      if (core::Array& array = item.state->slots[slot]; needed[slot] && !array.defined()) {
        array = zeros(item.parameter.shape(), item.parameter.dtype()).array();
        item.first = true;
      }
  }
  for (Item& item : items) {  // behind everything that may run out of memory
    item.memory = item.tensor->mutable_array();
    item.first |= item.state->steps++ == 0;
  }
  update_all(items);
  for (const Item& item : items)
    if (!item.memory.is_contiguous()) core::copy_into(item.memory, item.parameter);
  items.clear();
  items_ = std::move(items);
}

void Optimizer::sweep(std::span<Item> items) const {
  std::int64_t total = 0;
  for (Item& item : items) {
    item.begin = total;
    total += item.parameter.numel();
  }
  core::parallel_ranges(total, core::kernels::kStepElementsPerTask, [&](std::int64_t begin, std::int64_t end) {
    const auto begins_after = [](std::int64_t element, const Item& item) { return element < item.begin; };
    auto item = std::upper_bound(items.begin(), items.end(), begin, begins_after) - 1;
    for (; begin < end; ++item) {
      // Cut where vectors end, so that an element's bits don't depend on the parameters before its own.
      const std::int64_t size = item->parameter.numel(), stop = std::min(end, item->begin + size);
      const auto cut = [&](std::int64_t at) { return std::min((at - item->begin + 63) / 64 * 64, size); };
      if (cut(begin) < cut(stop)) update(*item, cut(begin), cut(stop));
      begin = std::max(begin, stop);
    }
  });
}

void Optimizer::zero_grad() const {
  const auto span = autograd::Span::outside(name_, ".zero_grad");
  for (const ParamGroup& group : groups_)
    for (const Tensor& parameter : group.parameters) parameter.set_grad({});
}

void Optimizer::set_lr(double lr) {
  for (std::size_t group = 0; group < groups_.size(); ++group) set_lr(lr, group);
}

void Optimizer::set_lr(double lr, std::size_t group) {
  checked(group);
  check_ranges({.lr = lr});
  groups_[group].lr = lr;
}

std::size_t Optimizer::checked(std::size_t group) const {
  if (group < groups_.size()) return group;
  throw IndexError(fmt::format("{}: the group must be one of {}; got {}", name_, groups_.size(), group));
}

std::vector<ParamGroup> decay_groups(const Tensors& parameters, std::optional<double> weight_decay) {
  std::vector<ParamGroup> groups = {{.weight_decay = weight_decay}, {.weight_decay = 0.0}};
  for (const Tensor& parameter : parameters) groups[parameter.rank() >= 2 ? 0 : 1].parameters.push_back(parameter);
  return groups;
}

std::vector<ParamGroup> decay_groups(const std::vector<NamedTensor>& parameters, std::optional<double> weight_decay) {
  Tensors tensors;
  for (const NamedTensor& parameter : parameters) tensors.push_back(parameter.tensor);
  return decay_groups(tensors, weight_decay);
}

}  // namespace tapegrad::optim
