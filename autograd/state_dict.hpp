// Named tensors in order: what modules (and optimizers) save and load.
#pragma once
#include <string>
#include <unordered_map>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// `for (const auto& [name, tensor] : module.named_parameters())`.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Tensors by name, in the order in which they were added.
class StateDict {
 public:
  StateDict() = default;
  StateDict(std::initializer_list<NamedTensor> entries);

  /// Adds an entry at the end, or replaces the tensor of the one that has this name.
  void set(const std::string& name, const Tensor& tensor);
  /// False if there is no such entry.
  bool erase(std::string_view name);
  /// nullptr if there is no such entry.
  const Tensor* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// ValueError if there is no such entry.
  const Tensor& at(std::string_view name) const;

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<NamedTensor> entries_;
  std::unordered_map<std::string, std::size_t> places_;  // of the names; a file may have a million of them
};

}  // namespace tapegrad
