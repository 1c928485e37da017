#include <tapegrad/autograd/state_dict.hpp>

#include <tapegrad/core/error.hpp>

namespace tapegrad {

StateDict::StateDict(std::initializer_list<NamedTensor> entries) {
  for (const auto& [name, tensor] : entries) set(name, tensor);
}

void StateDict::set(const std::string& name, const Tensor& tensor) {
  const auto [found, is_new] = places_.emplace(name, entries_.size());
  if (is_new)
    entries_.push_back({name, tensor});
  else
    entries_[found->second].tensor = tensor;
}

bool StateDict::erase(std::string_view name) {
  const auto found = places_.find(std::string(name));
  if (found == places_.end()) return false;
  const std::size_t place = found->second;
  places_.erase(found);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(place));
  for (std::size_t i = place; i < entries_.size(); ++i) --places_[entries_[i].name];
  return true;
}

const Tensor* StateDict::find(std::string_view name) const {
  const auto found = places_.find(std::string(name));
  return found == places_.end() ? nullptr : &entries_[found->second].tensor;
}

const Tensor& StateDict::at(std::string_view name) const {
  if (const Tensor* tensor = find(name)) return *tensor;
  throw ValueError("StateDict::at: the name must be one of the " + std::to_string(size()) + " entries; got \"" +
                   std::string(name) + "\"");
}

}  // namespace tapegrad
