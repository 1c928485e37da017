#include <tapegrad/autograd/format.hpp>
#include <tapegrad/optim/optimizer.hpp>
#include <tapegrad/optim/reading.hpp>
#include <tapegrad/optim/settings.hpp>

namespace tapegrad::optim {

struct Optimizer::Loaded {
  std::vector<ParamGroup> groups;
  std::vector<State> states;
};

StateDict Optimizer::state_dict() const {
  StateDict entries;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    each_setting([&](const char* setting, auto member) {
      if (const auto& value = groups_[i].*member) entries.set(fmt::format("groups.{}.{}", i, setting), encoded(*value));
    });
    entries.set(fmt::format("groups.{}.parameters", i),
                encoded(static_cast<std::int64_t>(groups_[i].parameters.size())));
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].steps == 0) continue;
    entries.set(fmt::format("state.{}.step", i), encoded(states_[i].steps));
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      if (states_[i].slots[slot].defined())
        entries.set(fmt::format("state.{}.{}", i, slot_names_[slot]), Tensor(states_[i].slots[slot]));
  }
  return entries;
}

Optimizer::Loaded Optimizer::read(const StateDict& entries) const {
  Reading reading(name_, entries);
  Loaded loaded{groups_, std::vector<State>(states_.size())};
  std::size_t index = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    ParamGroup& group = loaded.groups[i];
    each_setting([&](const char* setting, auto member) {
      if (auto& value = group.*member)
        if (const Tensor* entry = reading.get(fmt::format("groups.{}.{}", i, setting), encoded(*value)))
          decode(*entry, *value);
    });
    const auto count = static_cast<std::int64_t>(group.parameters.size());
    const std::string counted = fmt::format("groups.{}.parameters", i);
    if (const Tensor* entry = reading.get(counted, encoded(count));
        entry && entry->item() != static_cast<double>(count))
      reading.wrong(counted, fmt::format("{}, got {}", count, entry->item()));
    const auto needed = needs(group);
    for (const Tensor& parameter : group.parameters) {
      State& state = loaded.states[index];
      const std::string prefix = fmt::format("state.{}.", index++);
      const bool stepped = entries.contains(prefix + "step");
      if (stepped)
        if (const Tensor* entry = reading.get(prefix + "step", encoded(state.steps))) {
          decode(*entry, state.steps);
          if (state.steps < 1) reading.wrong(prefix + "step", fmt::format("positive, got {}", state.steps));
        }
      for (std::size_t slot = 0; slot < kSlots; ++slot) {
        const std::string entry_name = prefix + std::string(slot_names_[slot]);
        if (!stepped || slot_names_[slot].empty() || (!needed[slot] && !entries.contains(entry_name))) continue;
        if (const Tensor* entry = reading.get(entry_name, parameter))
          state.slots[slot] = entry->array().converted(parameter.dtype()).copy();
      }
    }
  }
  reading.finish();
  for (const ParamGroup& group : loaded.groups) {
    check_ranges(group);
    check(group);
  }
  return loaded;
}

void Optimizer::load_state_dict(const StateDict& entries) {
  Loaded loaded = read(entries);
  groups_ = std::move(loaded.groups);
  states_ = std::move(loaded.states);
}

}  // namespace tapegrad::optim
