#include <tapegrad/nn/module.hpp>

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include <fmt/format.h>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {

struct Module::State : std::enable_shared_from_this<State> {
  std::string type;
  std::string arguments;
  std::string name;
  std::string call_name;  // the name, with those of containers in front
  bool training = true;
  bool passes_name = false;
  std::shared_ptr<ForwardHooks> hooks;  // null until there is one
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  std::vector<std::pair<std::string, std::shared_ptr<State>>> children;

  /// Calls visit(state, prefix) for this module and all below it; the prefix is empty or ends in a dot.
  template <class Visit>
  void walk(const Visit& visit, const std::string& prefix = "") {
    visit(*this, prefix);
    for (const auto& [child_name, child] : children) child->walk(visit, prefix + child_name + ".");
  }

  /// Calls visit(tensor, name) for every parameter and buffer, under all of its names.
  template <class Visit>
  void walk_tensors(const Visit& visit) {
    walk([&](const State& state, const std::string& prefix) {
      for (const auto* list : {&state.parameters, &state.buffers})
        for (const auto& [own, tensor] : *list) visit(tensor, prefix + own);
    });
  }

  void set_call_name(const std::string& text) {
    call_name = text;
    if (!passes_name) return;
    for (const auto& [child_name, child] : children) child->set_call_name(text + "." + child_name);
  }

  void check_name(const char* operation, const std::string& wanted) const {
    const auto has = [&](const auto& list) {
      for (const auto& [taken, value] : list)
        if (taken == wanted) return true;
      return false;
    };
    require(!wanted.empty() && wanted.find('.') == std::string::npos,
            "{}: a name must not be empty nor contain a dot; got \"{}\"", operation, wanted);
    require(!has(parameters) && !has(buffers) && !has(children),
            "{}: a name must be new in its module; \"{}\" is taken", operation, wanted);
  }

  void check_tensor(const char* operation, const std::string& wanted, const Tensor& tensor) const {
    check_name(operation, wanted);
    autograd::check_defined(operation, tensor);
    require<GradError>(tensor.is_leaf(),
                       "{}: \"{}\" must be off the tape; got an operation's result; detach() it first", operation,
                       wanted);
  }

  std::int64_t count(bool trainable = false) {
    std::int64_t total = 0;
    for (const auto& [unused, parameter] : distinct(&State::parameters))
      if (!trainable || parameter.requires_grad()) total += parameter.numel();
    return total;
  }

  /// Each of the tree's parameters, or buffers, once, under the first of its names.
  std::vector<NamedTensor> distinct(std::vector<NamedTensor> State::*kind) {
    std::vector<NamedTensor> list;
    walk([&](const State& state, const std::string& prefix) {
      for (const auto& [own, tensor] : state.*kind) {
        const auto* body = tensor.body();
        const auto same = [&](const NamedTensor& seen) { return seen.tensor.body() == body; };
        if (std::none_of(list.begin(), list.end(), same)) list.push_back({prefix + own, tensor});
      }
    });
    return list;
  }

  /// What another tree must have as well to be copied from, line by line; a tied tensor's tells the first of its names.
  std::vector<std::string> outline() {
    std::vector<std::string> lines;
    std::map<const void*, std::string> first;
    const auto add = [&](const void* part, const std::string& name, const std::string& what) {
      const auto [at, is_new] = first.emplace(part, name);
      lines.push_back(fmt::format("{} {}{}", name, what, is_new ? "" : " tied to " + at->second));
    };
    walk([&](const State& state, const std::string& prefix) { add(&state, prefix, state.type); });
    walk_tensors(
        [&](const Tensor& tensor, const std::string& name) { add(tensor.body(), name, tensor.shape().to_string()); });
    return lines;
  }

  void print(std::string& text, const std::string& label, int depth, std::int64_t whole) {
    text += fmt::format("{:{}}{}{}", "", 2 * depth, label, type);
    if (!arguments.empty()) text += "(" + arguments + ")";
    const char* separator = ": ";
    for (const auto* list : {&parameters, &buffers})
      for (const auto& [own, tensor] : *list) {
        text += fmt::format("{}{} {}", separator, own, tensor.shape());
        separator = ", ";
      }
    if (const std::int64_t parameters_below = count(); parameters_below > 0 || depth == 0) {
      text += fmt::format("{}{} parameter{}", separator, parameters_below, parameters_below == 1 ? "" : "s");
      if (depth > 0)
        text += fmt::format(" ({:.1f} %)", 100.0 * static_cast<double>(parameters_below) / static_cast<double>(whole));
      if (const std::int64_t frozen = parameters_below - count(true)) text += fmt::format(", {} frozen", frozen);
    }
    for (const auto& [child_name, child] : children) {
      text += "\n";
      child->print(text, child_name + ": ", depth + 1, whole);
    }
  }
};

Module::Module(std::string type) : state_(std::make_shared<State>()) { state_->type = std::move(type); }

Tensors Module::parameters() const {
  Tensors list;
  for (auto& [name, tensor] : named_parameters()) list.push_back(tensor);
  return list;
}

std::vector<NamedTensor> Module::named_parameters() const { return state_->distinct(&State::parameters); }

std::vector<NamedTensor> Module::named_buffers() const { return state_->distinct(&State::buffers); }

std::int64_t Module::num_parameters() const { return state_->count(); }

std::vector<NamedModule> Module::named_modules() const {
  std::vector<NamedModule> list;
  state_->walk([&](State& state, const std::string& prefix) {
    const auto same = [&](const NamedModule& seen) { return seen.module.state_.get() == &state; };
    if (std::none_of(list.begin(), list.end(), same))
      list.push_back({prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1), Module(state.shared_from_this())});
  });
  return list;
}

Tensor Module::named_tensor(const std::string& name) const {
  Tensor found;
  state_->walk_tensors([&](const Tensor& tensor, const std::string& own) {
    if (own == name) found = tensor;
  });
  require(found.defined(), "{}::named_tensor: expected the name of a parameter or buffer; got \"{}\"", state_->type,
          name);
  return found;
}

void Module::requires_grad_(const std::string& pattern, bool requires_grad) const {
  std::string names;
  Tensors matching;
  state_->walk([&](const State& state, const std::string& prefix) {
    for (const auto& [own, parameter] : state.parameters) {
      names += (names.empty() ? "" : ", ") + prefix + own;
      if (fnmatch(pattern.c_str(), (prefix + own).c_str(), 0) == 0) matching.push_back(parameter);
    }
  });
  require(!matching.empty(),
          "{}::requires_grad_: the pattern must match the name of a parameter; got \"{}\"; the names are {}",
          state_->type, pattern, names);
  for (Tensor& parameter : matching) {
    parameter.requires_grad_(requires_grad);
    if (!requires_grad) parameter.set_grad({});
  }
}

void Module::train(bool on) {
  state_->walk([on](State& state, const std::string&) { state.training = on; });
}

bool Module::is_training() const { return state_->training; }

void Module::zero_grad() const {
  for (const auto& [name, parameter] : named_parameters()) parameter.set_grad({});
}

void Module::to(Dtype dtype) {
  require<DtypeError>(is_floating(dtype), "Module::to: parameters must be float32 or float64; got {}", dtype);
  NoGradGuard no_grad;
  state_->walk_tensors([dtype](const Tensor& tensor, const std::string&) {
    if (!is_floating(tensor.dtype()) || tensor.dtype() == dtype) return;
    tensor.set_grad({});
    tensor.mutable_array() = tensor.array().converted(dtype);
  });
}

StateDict Module::state_dict() const {
  StateDict entries;
  state_->walk_tensors([&](const Tensor& tensor, const std::string& name) { entries.set(name, tensor.detach()); });
  return entries;
}

LoadReport Module::load_state_dict(const StateDict& entries, bool strict) {
  LoadReport report;
  std::vector<std::pair<Tensor, Tensor>> copies;
  std::string faults;
  StateDict own;
  state_->walk_tensors([&](const Tensor& tensor, const std::string& name) { own.set(name, tensor); });
  for (const auto& [name, tensor] : own) {
    const Tensor* source = entries.find(name);
    if (!source)
      report.missing.push_back(name);
    else if (source->shape() != tensor.shape())
      faults += fmt::format("; wrong shape: {} must be {}, got {}", name, tensor.shape(), source->shape());
    else if (is_floating(source->dtype()) && !is_floating(tensor.dtype()))
      faults += fmt::format("; wrong dtype: {} must be {}, got {}", name, tensor.dtype(), source->dtype());
    else
      copies.emplace_back(tensor, *source);
  }
  for (const auto& [name, tensor] : entries)
    if (!own.contains(name)) report.unexpected.push_back(name);
  if (strict && !report.missing.empty()) faults += fmt::format("; missing: {}", fmt::join(report.missing, ", "));
  if (strict && !report.unexpected.empty())
    faults += fmt::format("; unexpected: {}", fmt::join(report.unexpected, ", "));
  require(faults.empty(),
          "{}::load_state_dict: entries must fit the module's parameters and buffers{}; nothing was loaded",
          state_->type, faults);
  NoGradGuard no_grad;
  for (const auto& [to, from] : copies) core::copy_into(to.mutable_array(), from.array());
  return report;
}

void Module::copy_from(const Module& model) {
  std::vector<std::string> own = state_->outline(), wanted = model.state_->outline();
  const std::size_t lines = std::max(own.size(), wanted.size());
  own.resize(lines, "nothing");
  wanted.resize(lines, "nothing");
  if (const auto [here, there] = std::mismatch(own.begin(), own.end(), wanted.begin()); here != own.end())
    throw ValueError(
        fmt::format("{}::copy_from: both modules must have the same parts, shapes and tied tensors; got {} "
                    "where the other has {}; make both from the same arguments",
                    state_->type, *here, *there));
  NoGradGuard no_grad;
  Tensors to, from;
  state_->walk_tensors([&](const Tensor& tensor, const std::string&) { to.push_back(tensor); });
  model.state_->walk_tensors([&](const Tensor& tensor, const std::string&) { from.push_back(tensor); });
  std::set<const autograd::TensorBody*> sources;
  for (const Tensor& tensor : from) sources.insert(tensor.body());
  for (std::size_t i = 0; i < to.size(); ++i)
    require(!sources.contains(to[i].body()),
            "{}::copy_from: both modules must have tensors of their own; got a shared one, {}", state_->type,
            own[own.size() - to.size() + i]);
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i].dtype() != from[i].dtype()) {
      to[i].set_grad({});
      to[i].mutable_array() = from[i].array().copy();
    }
    core::copy_into(to[i].mutable_array(), from[i].array());
    if (is_floating(to[i].dtype())) to[i].requires_grad_(from[i].requires_grad());
  }
  const std::vector<NamedModule> parts = named_modules(), theirs = model.named_modules();
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].module.state_->training = theirs[i].module.state_->training;
}

std::string Module::to_string() const {
  std::string text;
  state_->print(text, "", 0, num_parameters());
  return text;
}

const std::string& Module::type() const { return state_->type; }

const std::string& Module::name() const { return state_->name; }

Tensor Module::register_parameter(const std::string& name, Tensor parameter) {
  state_->check_tensor("register_parameter", name, parameter);
  parameter.requires_grad_();
  return state_->parameters.emplace_back(NamedTensor{name, parameter}).tensor;
}

Tensor Module::register_buffer(const std::string& name, Tensor buffer) {
  state_->check_tensor("register_buffer", name, buffer);
  return state_->buffers.emplace_back(NamedTensor{name, buffer}).tensor;
}

void Module::adopt(const std::string& name, const Module& child) {
  state_->check_name("register_module", name);
  child.state_->walk([&](const State& below, const std::string&) {
    require(&below != state_.get(), "register_module: a module must not contain itself; got \"{}\"", name);
  });
  if (child.state_->name.empty()) {
    child.state_->name = name;
    child.state_->set_call_name(state_->passes_name && !state_->call_name.empty() ? state_->call_name + "." + name
                                                                                  : name);
  }
  state_->children.emplace_back(name, child.state_);
}

void Module::check_sizes(std::initializer_list<std::pair<const char*, std::int64_t>> arguments) const {
  for (const auto& [argument, size] : arguments)
    require(size >= 0, "{}: {} must not be negative; got {}", type(), argument, size);
}

void Module::describe(std::string arguments) { state_->arguments = std::move(arguments); }

void Module::pass_name_to_children() { state_->passes_name = true; }

core::Scope Module::scope() const { return core::Scope(state_->call_name); }

ForwardHookHandle Module::add_forward_hook(ForwardHooks::Hook hook) const {
  if (!state_->hooks) state_->hooks = std::make_shared<ForwardHooks>();
  return {state_->hooks, state_->hooks->add(std::move(hook))};
}

Tensor Module::finished(Tensor output) const {
  if (state_->hooks) state_->hooks->call(*this, output, [&](Tensor replaced) { output = std::move(replaced); });
  return output;
}

EvalGuard::EvalGuard(const Module& module) {
  module.state_->walk([this](Module::State& state, const std::string&) {
    before_.emplace_back(state.shared_from_this(), std::exchange(state.training, false));
  });
}

EvalGuard::~EvalGuard() {
  for (auto at = before_.rbegin(); at != before_.rend(); ++at) at->first->training = at->second;
}

}  // namespace tapegrad::nn
