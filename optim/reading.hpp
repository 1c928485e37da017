// Reading a state dict strictly: all faults are collected, then thrown as one error. Private to the library.
#pragma once
#include <unordered_set>

#include <tapegrad/autograd/state_dict.hpp>

namespace tapegrad::optim {

class Reading {
 public:
  /// `name` is that of the class, for the error text.
  Reading(const char* name, const StateDict& entries) : name_(name), entries_(entries) {}

  /// The entry of this name; nullptr, and a fault, if it is missing or not of the shape and dtype of `like` (any
  /// floating dtype does for another).
  const Tensor* get(const std::string& entry, const Tensor& like);
  /// `text` says what `entry` must be, and what it is.
  void wrong(const std::string& entry, const std::string& text) { wrong_.push_back(entry + " must be " + text); }
  /// ValueError if there was any fault, or an entry that nobody asked for.
  void finish() const;

 private:
  const char* name_;
  const StateDict& entries_;
  std::unordered_set<std::string> read_;
  std::vector<std::string> missing_, wrong_;
};

}  // namespace tapegrad::optim
