// The dotted path of the module that is being called on this thread: for error texts and profiles.
#pragma once
#include <cstdint>
#include <string>

namespace tapegrad::core {

/// While it lives, `name` is the last part of the path. `name` must outlive it.
class Scope {
 public:
  explicit Scope(const std::string& name) : name_(&name), outer_(current_), number_(++last_number_) { current_ = this; }
  ~Scope() { current_ = outer_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// "encoder.layers.0.self_attn", or "" outside every module.
  static std::string path() { return current_ ? current_->path_to_here() : std::string(); }

  /// The innermost scope of this thread, or null; and so outward.
  static const Scope* current() { return current_; }
  const Scope* outer() const { return outer_; }
  const std::string& name() const { return *name_; }
  std::string path_to_here() const;
  /// Grows with each scope that this thread opens.
  std::uint64_t number() const { return number_; }

 private:
  const std::string* name_;
  const Scope* outer_;
  std::uint64_t number_;
  static inline thread_local const Scope* current_ = nullptr;
  static inline thread_local std::uint64_t last_number_ = 0;
};

}  // namespace tapegrad::core
