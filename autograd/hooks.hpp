// Functions of the user's that are called at some point and may replace the value there.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tapegrad/core/error.hpp>

namespace tapegrad::autograd {

/// ValueError in the operation's name if `f` is an empty std::function or a null pointer.
template <class F>
void check_function(const char* operation, const F& f) {
  if constexpr (!std::is_empty_v<F> && requires { f == nullptr; })  // a lambda without captures is never null
    if (f == nullptr) throw ValueError(std::string(operation) + ": expected a function to call; got an empty one");
}

/// Hooks in the order of their registration. Each is called with `Context...` and the value, and returns another value,
/// or an undefined one, or nothing.
template <class Value, class... Context>
class HookList {
 public:
  using Hook = std::function<Value(const Context&..., const Value&)>;

  /// `f` as a hook; ValueError in the operation's name if it is empty.
  template <class F>
  static Hook hook_of(const char* operation, F f) {
    check_function(operation, f);
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const Context&..., const Value&>>)
      return [f = std::move(f)](const Context&... context, const Value& value) mutable {
        f(context..., value);
        return Value();
      };
    else
      return f;
  }

  /// The number that removes it.
  std::uint64_t add(Hook hook) {
    hooks_.emplace_back(++last_number_, std::make_shared<Hook>(std::move(hook)));
    return last_number_;
  }
  void remove(std::uint64_t number) {
    std::erase_if(hooks_, [number](const auto& hook) { return hook.first == number; });
  }
  /// Calls `take` with each defined value that a hook returns. `value` is what the hooks get: `take` may change it. A
  /// hook may remove itself and others, which are then called no more, and add others, for the next time; it keeps its
  /// state from one call to the next.
  template <class Take>
  void call(const Context&... context, const Value& value, Take take) const {
    const auto hooks = hooks_;
    for (const auto& entry : hooks) {
      if (std::find(hooks_.begin(), hooks_.end(), entry) == hooks_.end()) continue;
      if (Value replaced = (*entry.second)(context..., value); replaced.defined()) take(std::move(replaced));
    }
  }

  /// A hook that was registered. It stays when the handle goes.
  class Handle {
   public:
    Handle() = default;
    Handle(const std::shared_ptr<HookList>& list, std::uint64_t number) : list_(list), number_(number) {}
    /// The hook is called no more; nothing happens if it is gone already.
    void remove() {
      if (const auto list = list_.lock()) list->remove(number_);
    }

   private:
    std::weak_ptr<HookList> list_;
    std::uint64_t number_ = 0;
  };

 private:
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Hook>>> hooks_;
  std::uint64_t last_number_ = 0;
};

}  // namespace tapegrad::autograd
