#include <tapegrad/autograd/state_dict.hpp>

#include <algorithm>

#include <tapegrad/core/error.hpp>

namespace tapegrad {
namespace {

auto position(const std::vector<NamedTensor>& entries, std::string_view name) {
  return std::find_if(entries.begin(), entries.end(), [&](const NamedTensor& entry) { return entry.name == name; });
}

}  // namespace

StateDict::StateDict(std::initializer_list<NamedTensor> entries) {
  for (const auto& [name, tensor] : entries) set(name, tensor);
}

void StateDict::set(const std::string& name, const Tensor& tensor) {
  const auto found = position(entries_, name);
  if (found == entries_.end())
    entries_.push_back({name, tensor});
  else
    entries_[static_cast<std::size_t>(found - entries_.begin())].tensor = tensor;
}

bool StateDict::erase(std::string_view name) {
  const auto found = position(entries_, name);
  if (found == entries_.end()) return false;
  entries_.erase(found);
  return true;
}

const Tensor* StateDict::find(std::string_view name) const {
  const auto found = position(entries_, name);
  return found == entries_.end() ? nullptr : &found->tensor;
}

const Tensor& StateDict::at(std::string_view name) const {
  if (const Tensor* tensor = find(name)) return *tensor;
  throw ValueError("StateDict::at: the name must be one of the " + std::to_string(size()) + " entries; got \"" +
                   std::string(name) + "\"");
}

}  // namespace tapegrad
