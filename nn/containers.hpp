// Modules in a row. Modules in a plain std::vector are not registered: they would never be trained, saved or switched.
#pragma once
#include <functional>

#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

/// Modules of one type, named "0", "1", ...; the user's forward goes over them.
template <std::derived_from<Module> M>
class ModuleList : public Module {
 public:
  explicit ModuleList(std::vector<M> modules = {})
      : Module("ModuleList"), modules_(std::make_shared<std::vector<M>>()) {
    pass_name_to_children();
    for (M& module : modules) append(std::move(module));
  }
  ModuleList& append(M module) {
    modules_->push_back(register_module(std::to_string(modules_->size()), std::move(module)));
    return *this;
  }
  std::size_t size() const { return modules_->size(); }
  /// IndexError if there are not so many.
  M& operator[](std::size_t i) { return (*modules_)[checked(i)]; }
  const M& operator[](std::size_t i) const { return (*modules_)[checked(i)]; }
  auto begin() { return modules_->begin(); }
  auto end() { return modules_->end(); }
  auto begin() const { return modules_->cbegin(); }
  auto end() const { return modules_->cend(); }

 private:
  std::size_t checked(std::size_t i) const {
    if (i < size()) return i;
    throw IndexError("ModuleList: the index must be below " + std::to_string(size()) + "; got " + std::to_string(i));
  }
  std::shared_ptr<std::vector<M>> modules_;
};

/// Modules of any type that are called with one tensor, each with the result of the one before: Sequential(Linear(2,
/// 8), ReLU(), Linear(8, 1)). They are named "0", "1", ....
class Sequential : public Module {
 public:
  template <class... Ms>
  requires(sizeof...(Ms) > 0) explicit Sequential(Ms... modules) : Sequential() { (append(std::move(modules)), ...); }
  Sequential() : Module("Sequential"), steps_(std::make_shared<std::vector<Step>>()) {}

  template <class M>
  Sequential& append(M module) {
    static_assert(
        std::derived_from<M, Module> && std::is_invocable_r_v<Tensor, M&, const Tensor&>,
        "Sequential: each part must be a module with Tensor operator()(const Tensor&); nn::Function makes one "
        "of a function");
    steps_->push_back([child = register_module(std::to_string(steps_->size()), std::move(module))](
                          const Tensor& x) mutable { return child(x); });
    return *this;
  }
  std::size_t size() const { return steps_->size(); }

  Tensor forward(const Tensor& x) const {
    const auto here = scope();
    Tensor y = x;
    for (const Step& step : *steps_) y = step(y);
    return finished(y);
  }
  Tensor operator()(const Operand& x) const { return forward(x); }

 private:
  using Step = std::function<Tensor(const Tensor&)>;
  std::shared_ptr<std::vector<Step>> steps_;
};

}  // namespace tapegrad::nn
