// The dotted path of the module that is being called on this thread: for error texts and profiles.
#pragma once
#include <string>

namespace tapegrad::core {

/// While it lives, `name` is the last part of the path. `name` must outlive it.
class Scope {
 public:
  explicit Scope(const std::string& name) : name_(&name), outer_(current_) { current_ = this; }
  ~Scope() { current_ = outer_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// "encoder.layers.0.self_attn", or "" outside every module.
  static std::string path();

 private:
  const std::string* name_;
  Scope* outer_;
  static inline thread_local Scope* current_ = nullptr;
};

}  // namespace tapegrad::core
