// Module: a named tree of parameters, buffers and children, and the training flag.
#pragma once
#include <concepts>
#include <memory>
#include <type_traits>

#include <tapegrad/autograd/state_dict.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/random.hpp>
#include <tapegrad/core/scope.hpp>

namespace tapegrad::nn {

using tapegrad::NamedTensor;
using tapegrad::StateDict;

/// What loading without `strict` left out.
struct LoadReport {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
};

class Module;
struct NamedModule;
/// What looks at the results of calls: register_forward_hook.
using ForwardHooks = autograd::HookList<Tensor, Module>;
using ForwardHookHandle = ForwardHooks::Handle;

/// A handle: copies share parameters, children and the training flag. A model derives from it, registers its parts in
/// its members' initialisers and has a plain method for its forward pass:
///
///     struct Mlp : nn::Module {
///       nn::Linear in = register_module("in", nn::Linear(4, 16));
///       nn::Linear out = register_module("out", nn::Linear(16, 2));
///       Tensor forward(const Tensor& x) { return out(nn::relu(in(x))); }
///     };
///
/// Names are dotted ("in.weight"); every listing is in order of registration, a module's own tensors before its
/// children's.
class Module {
 public:
  /// `type` is what the printed tree calls it.
  explicit Module(std::string type = "Module");

  /// Each tensor once, under the first of its names, even if it is registered in several places (tied weights).
  Tensors parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  std::int64_t num_parameters() const;
  /// This module, under the empty name, and all below it: each once, under the first of its names.
  std::vector<NamedModule> named_modules() const;
  /// Calls visit(module) for each of them.
  template <class Visit>
  void apply(const Visit& visit) const;
  /// The parameter or buffer of this dotted name; ValueError if there is none.
  Tensor named_tensor(const std::string& name) const;

  /// Sets which parameters want a gradient: those of which a name matches the pattern, in which * stands for any text
  /// and ? for a character ("*" is all of them). ValueError if none does. What is frozen loses its gradient, so that
  /// optimizers leave it alone.
  void requires_grad_(const std::string& pattern, bool requires_grad = true) const;

  /// Sets the mode of the whole tree: Dropout acts in training alone.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const;
  /// Clears every parameter's gradient.
  void zero_grad() const;
  /// Converts all floating parameters and buffers in place; gradients are dropped. To be done before an optimizer is
  /// made.
  void to(Dtype dtype);

  /// Parameters and buffers under all of their names; the tensors share memory with the module's.
  StateDict state_dict() const;
  /// Copies values in, converted to the module's dtypes. One error lists all missing, unexpected (both only if
  /// `strict`) and wrongly shaped entries, and floating ones for integers, and then nothing is changed.
  LoadReport load_state_dict(const StateDict& entries, bool strict = true);
  /// Takes over values, dtypes, modes and which parameters want a gradient; hooks stay where they are. ValueError,
  /// before anything changes, unless both trees have the same names, shapes and tied tensors, and share none.
  void copy_from(const Module& model);

  /// Calls `hook(module, output)` at the end of every call of this module, under its name in the path of errors. If the
  /// hook returns a defined tensor, the call gives that one instead; one that returns nothing observes. A module of
  /// your own has hooks if its calls end with `return finished(...)`.
  template <class F>
  ForwardHookHandle register_forward_hook(F hook) const {
    return add_forward_hook(ForwardHooks::hook_of("register_forward_hook", std::move(hook)));
  }

  /// The tree, with shapes, counts, and shares of the whole.
  std::string to_string() const;
  /// What it was called by its class, as in the printed tree.
  const std::string& type() const;
  /// The name that it was first registered under; empty for a root.
  const std::string& name() const;

 protected:
  /// A leaf that wants a gradient, kept under `name`; returns it. GradError for a recorded result.
  Tensor register_parameter(const std::string& name, Tensor parameter);
  /// A tensor off the tape that is saved with the module but not trained. To change it: init::copy_(buffer, values).
  Tensor register_buffer(const std::string& name, Tensor buffer);
  /// Keeps a child under `name` and returns it. ValueError if the name is taken, empty or has a dot in it.
  template <std::derived_from<Module> M>
  M register_module(const std::string& name, M module) {
    adopt(name, module);
    return module;
  }
  /// ValueError that names module and argument if one of them is negative: before anything is made of them.
  void check_sizes(std::initializer_list<std::pair<const char*, std::int64_t>> arguments) const;
  /// The arguments that the printed tree shows behind the type.
  void describe(std::string arguments);
  /// A container that is never called itself: its name goes in front of its children's in the path of errors.
  void pass_name_to_children();
  /// While the result lives, errors name this module; every call of a module begins with it.
  [[nodiscard]] core::Scope scope() const;
  /// What a call gives, after the forward hooks; every call of a module ends with it.
  [[nodiscard]] Tensor finished(Tensor output) const;

 private:
  friend class EvalGuard;
  struct State;
  explicit Module(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void adopt(const std::string& name, const Module& child);
  ForwardHookHandle add_forward_hook(ForwardHooks::Hook hook) const;

  std::shared_ptr<State> state_;
};

struct NamedModule {
  std::string name;
  Module module;
};

template <class Visit>
void Module::apply(const Visit& visit) const {
  for (const auto& [name, module] : named_modules()) visit(module);
}

/// A model of its own that is as `model` is: made by M's constructor from `arguments`, it then takes over what
/// Module::copy_from says. (Copying a handle shares; and the members of a class of your own can be bound to new modules
/// by its constructor alone.) No random numbers are used up.
template <std::derived_from<Module> M, class... Arguments>
requires std::constructible_from<M, const Arguments&...> M clone(const M& model, const Arguments&... arguments) {
  const RandomStateGuard random;
  M copy = M(arguments...);
  copy.copy_from(model);
  return copy;
}

/// While it lives, the whole tree is in evaluation mode; afterwards each part is again in its own.
class EvalGuard {
 public:
  [[nodiscard]] explicit EvalGuard(const Module& module);
  ~EvalGuard();
  EvalGuard(const EvalGuard&) = delete;
  EvalGuard& operator=(const EvalGuard&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<Module::State>, bool>> before_;
};

}  // namespace tapegrad::nn
