// The backward sweep: reachable entries from the highest number down, in one loop.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <tapegrad/autograd/anomaly.hpp>
#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/grad.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/autograd/sweep.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/kernels/kernels.hpp>

namespace tapegrad {
namespace autograd {
namespace {

using EntrySet = std::unordered_set<const Entry*>;
using LeafSet = std::unordered_set<const TensorBody*>;

class Sweep;

/// Nodes of a map, from the pool: one comes and goes with each entry of a sweep.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(core::pool_allocate(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) { core::pool_free(memory, count * sizeof(T)); }
  bool operator==(const PoolAllocator&) const = default;
};

/// What this thread is sweeping.
struct SweepState {
  Sweep* sweep = nullptr;
  const Entry* running = nullptr;   // the entry whose closure is being run
  EntrySet* entries = nullptr;      // in a sweep for certain inputs: the entries on their paths,
  const LeafSet* leaves = nullptr;  // and those inputs that are leaves
};
thread_local SweepState state;

bool is_wanted(const Edge& edge) {
  if (edge.entry()) return !state.entries || state.entries->count(edge.entry());
  return edge.leaf() && (!state.leaves || state.leaves->count(edge.leaf()));
}

/// Sets the thread's sweep state, and puts the former one back: a closure may itself call backward.
class StateGuard {
 public:
  explicit StateGuard(const SweepState& inside) : before_(state) { state = inside; }
  ~StateGuard() { state = before_; }

 private:
  SweepState before_;
};

/// Nobody else can see the memory of `sum`.
bool is_writable(const Tensor& sum) {
  return !grad_enabled() && !sum.requires_grad() && sum.body()->references.value() == 1 &&
         sum.body()->array.owns_alone() && sum.body()->array.is_contiguous();
}

/// `first` + `second`; in the memory of `first` if that may be.
Tensor accumulate(Tensor first, const Tensor& second) {
  if (!is_writable(first)) return first + second;
  core::kernels::add_in_place(first.body()->array, second.body()->array);
  return first;
}

/// `gradient` as the hooks leave it.
Tensor hooked(const Notes& notes, Tensor gradient) {
  const Tensor given = gradient;
  const core::Storage& storage = *given.body()->array.storage();
  const std::uint32_t version = storage.version();
  notes.hooks.call(gradient, [&](const Tensor& replaced) {
    check_gradient("register_hook", gradient, replaced);
    gradient = grad_enabled() ? replaced : replaced.detach();
  });
  if (storage.version() != version)
    throw GradError(
        "register_hook: a hook must not write into the gradient, which others may share; return a new one instead");
  return gradient;
}

std::string rule(const Entry& entry, int i) {
  return std::string(entry.name()) + ": its gradient for input " + std::to_string(i);
}

/// The gradient of input `i` as the input's shape wants it; GradError in the name of the operation if it can't be
/// right.
Tensor fitted(const Entry& entry, int i, Tensor gradient) {
  const Edge& edge = entry.edge(i);
  if (gradient.dtype() != edge.dtype())
    throw GradError(rule(entry, i) + " must have the input's dtype " + std::string(name_of(edge.dtype())) + "; got " +
                    std::string(name_of(gradient.dtype())) + "; convert it in the backward function");
  if (gradient.shape() == edge.shape()) return gradient;
  if (gradient.shape() != entry.shape() || !is_broadcastable_to(edge.shape(), entry.shape()))
    throw GradError(rule(entry, i) + " must have the input's shape " + edge.shape().to_string() +
                    (edge.shape() == entry.shape() ? "" : " (or the result's, " + entry.shape().to_string() + ")") +
                    "; got " + gradient.shape().to_string() + "; correct its backward function");
  return sum_to(gradient, edge.shape());
}

void add_paths(const Tensors& outputs, const EntrySet& targets, const LeafSet& leaves, LeafSet& used,
               std::uint64_t since, EntrySet& paths);

/// One sweep. Gradients of leaves are collected and handed out at the end: a sweep that throws changes none.
class Sweep {
 public:
  Sweep(bool retain_graph, bool create_graph) : retain_(retain_graph || create_graph), mode_(create_graph) {}

  void start(const Tensor& output, const Tensor& gradient) {
    TensorBody& body = *output.body();
    Tensor seed = grad_enabled() ? gradient : gradient.detach();
    body.entry ? arrive(body.entry.get(), std::move(seed)) : arrive(&body, std::move(seed));
  }

  /// `captured`: intermediate results whose gradient is asked for.
  void run(std::unordered_map<const Entry*, Tensor>* captured = nullptr) {
    while (!waiting_.empty()) {
      auto [entry, gradient] = std::move(waiting_.extract(std::prev(waiting_.end())).mapped());
      if (entry->noted()) gradient = noted(entry, std::move(gradient));
      if (captured)
        if (auto found = captured->find(entry.get()); found != captured->end()) found->second = gradient;
      if (!state.entries || wanted_inside(*entry)) pass_on(*entry, std::move(gradient));
    }
    for (Leaf& leaf : leaves_) {
      if (leaf.body->noted) leaf.gradient = hooked(*notes_at(leaf.body.get()), std::move(leaf.gradient));
      if (checks_values_) check_leaf_gradient(leaf.gradient);
    }
  }

  void go_on(const Tensor& output, const Tensor& gradient, std::uint64_t since) {
    LeafSet used;
    if (state.entries) add_paths({output}, {}, *state.leaves, used, since, *state.entries);
    start(output, gradient);
  }

  struct Leaf {
    core::Shared<TensorBody> body;
    Tensor gradient;
  };
  /// In the order in which the sweep met them.
  std::vector<Leaf>& leaves() { return leaves_; }
  /// nullptr for a leaf that the sweep did not meet.
  Leaf* leaf(const TensorBody* body) {
    const auto found = leaf_places_.find(body);
    return found == leaf_places_.end() ? nullptr : &leaves_[found->second];
  }

  struct Waiting {
    core::Shared<Entry> entry;
    Tensor gradient;
  };
  /// The gradients that intermediate results retain.
  std::vector<Waiting>& retained() { return retained_; }

  core::Array take(const Edge& edge) {
    Tensor* sum = nullptr;
    if (edge.entry()) {
      if (auto found = waiting_.find(edge.entry()->number()); found != waiting_.end()) sum = &found->second.gradient;
    } else if (Leaf* leaf = this->leaf(edge.leaf())) {
      sum = &leaf->gradient;
    }
    if (!sum || !sum->defined() || !is_writable(*sum)) return {};
    return std::exchange(*sum, {}).body()->array;
  }

 private:
  static bool wanted_inside(const Entry& entry) {
    for (int i = 0; i < entry.inputs(); ++i)
      if (is_wanted(entry.edge(i))) return true;
    return false;
  }

  Tensor noted(const core::Shared<Entry>& entry, Tensor gradient) {
    const std::shared_ptr<Notes> notes = entry->notes();
    gradient = hooked(*notes, std::move(gradient));
    if (notes->retains_grad) retained_.push_back({entry, gradient});
    return gradient;
  }

  void pass_on(Entry& entry, Tensor gradient) {
    if (entry.consumed())
      throw GradError(
          std::string(entry.name()) +
          ": this part of the graph was already swept and freed; compute the forward pass again, or keep the "
          "graph with backward({.retain_graph = true})");
    if (checks_values_) check_gradient_value(entry, gradient);
    const Span span(entry);
    Tensors gradients;
    {
      StateGuard inside({this, &entry, state.entries, state.leaves});
      gradients = entry.run(gradient);
    }
    gradient = {};
    if (static_cast<int>(gradients.size()) != entry.inputs())
      throw GradError(std::string(entry.name()) + ": its backward function must return one gradient for each of its " +
                      std::to_string(entry.inputs()) + " inputs; got " + std::to_string(gradients.size()));
    if (gradient_filter) gradient_filter(entry, gradients);
    for (int i = 0; i < entry.inputs(); ++i) {
      const Edge& edge = entry.edge(i);
      if (!gradients[i].defined() || !is_wanted(edge)) continue;
      if (checks_values_) check_input_gradient(entry, i, gradients[i]);
      Tensor fit = fitted(entry, i, std::move(gradients[i]));
      edge.entry() ? arrive(edge.entry(), std::move(fit)) : arrive(edge.leaf(), std::move(fit));
    }
    if (!retain_) span.keeping_until([&] { entry.consume(); });
  }

  void arrive(Entry* entry, Tensor gradient) {
    auto& [kept, sum] = waiting_[entry->number()];
    if (!kept) kept = core::Shared<Entry>::share(entry);
    sum = sum.defined() ? accumulate(std::move(sum), gradient) : std::move(gradient);
  }
  void arrive(TensorBody* leaf, Tensor gradient) {
    const auto [place, is_new] = leaf_places_.try_emplace(leaf, leaves_.size());
    if (is_new) leaves_.push_back({core::Shared<TensorBody>::share(leaf), {}});
    Tensor& sum = leaves_[place->second].gradient;
    sum = sum.defined() ? accumulate(std::move(sum), gradient) : std::move(gradient);
  }

  bool retain_;
  GradModeGuard mode_;
  bool checks_values_ = anomaly_enabled();
  std::vector<Waiting> retained_;
  std::map<std::uint64_t, Waiting, std::less<>, PoolAllocator<std::pair<const std::uint64_t, Waiting>>>
      waiting_;  // by number: the last is the next
  std::vector<Leaf> leaves_;
  std::unordered_map<const TensorBody*, std::size_t> leaf_places_;
};

void check_on_tape(const char* operation, const Tensor& output) {
  check_defined(operation, output);
  if (!output.requires_grad())
    throw GradError(
        std::string(operation) +
        ": expected a tensor on the tape; got one that depends on no tensor with requires_grad (or was made "
        "under NoGradGuard, or detached)");
}

Tensor seed_gradient(const char* operation, const Tensor& output) {
  if (output.numel() != 1)
    throw ShapeError(std::string(operation) +
                     ": without a given gradient the output must be a scalar (one element); got shape " +
                     output.shape().to_string() + "; reduce it with sum() or mean(), or hand over its gradient");
  return ones_like(output.detach());
}

/// Adds to `paths` the entries after number `since` that are reachable from `outputs` and from which a wanted input can
/// be reached, and to `used` the leaves that they use.
void add_paths(const Tensors& outputs, const EntrySet& targets, const LeafSet& leaves, LeafSet& used,
               std::uint64_t since, EntrySet& paths) {
  std::vector<const Entry*> reachable;
  EntrySet seen;
  const auto visit = [&](const Entry* entry) {
    if (entry && entry->number() > since && seen.insert(entry).second) reachable.push_back(entry);
  };
  for (const Tensor& output : outputs)
    output.is_leaf() ? void(used.insert(output.body())) : visit(output.body()->entry.get());
  for (std::size_t i = 0; i < reachable.size(); ++i)
    for (int k = 0; k < reachable[i]->inputs(); ++k) visit(reachable[i]->edge(k).entry());
  std::sort(reachable.begin(), reachable.end(), [](auto* a, auto* b) { return a->number() < b->number(); });
  for (const Entry* entry : reachable) {
    bool leads = targets.count(entry) > 0;
    for (int k = 0; k < entry->inputs(); ++k) {
      const Edge& edge = entry->edge(k);
      leads = leads || (edge.entry() ? paths.count(edge.entry()) > 0 : edge.leaf() && leaves.count(edge.leaf()));
      if (edge.leaf()) used.insert(edge.leaf());
    }
    if (leads) paths.insert(entry);
  }
}

void check_used(const Tensors& inputs, const EntrySet& paths, const LeafSet& used) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].is_leaf() ? !used.count(inputs[i].body()) : !paths.count(inputs[i].body()->entry.get()))
      throw GradError(
          "grad: input " + std::to_string(i) + " of shape " + inputs[i].shape().to_string() +
          " is not reached from the outputs; pass {.allow_unused = true} for an undefined gradient instead");
}

}  // namespace

const Entry* running_entry() { return state.running; }

bool needs_gradient(int i) {
  return !state.running || i >= state.running->inputs() || is_wanted(state.running->edge(i));
}

void sweep_on(const Tensor& output, const Tensor& gradient, std::uint64_t since) {
  state.sweep->go_on(output, gradient, since);
}

core::Array take_gradient(int i) {
  return state.sweep && i < state.running->inputs() ? state.sweep->take(state.running->edge(i)) : core::Array();
}

namespace {

void add_to(Tensor& sum, Tensor gradient, bool create_graph) {
  if (sum.defined())
    sum = accumulate(std::move(sum), gradient);
  else  // memory of its own: writing one gradient must not change another
    sum = create_graph || (gradient.body()->references.value() == 1 && gradient.body()->array.owns_alone())
              ? std::move(gradient)
              : Tensor(gradient.array().copy());
}

void backward(const Tensor& output, const Tensor& gradient, const BackwardOptions& options) {
  StateGuard outside({});
  Sweep sweep(options.retain_graph, options.create_graph);
  sweep.start(output, gradient);
  sweep.run();
  for (Sweep::Leaf& leaf : sweep.leaves()) add_to(leaf.body->grad, std::move(leaf.gradient), options.create_graph);
  for (auto& [entry, gradient] : sweep.retained())
    add_to(entry->notes()->grad, std::move(gradient), options.create_graph);
}

}  // namespace

Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options, SourceLocation where) {
  const UserLine line(where);
  std::unordered_map<const Entry*, Tensor> captured;
  EntrySet targets;
  LeafSet leaves;
  for (const Tensor& input : inputs) {
    check_on_tape("grad: input", input);
    if (const Entry* entry = input.body()->entry.get()) {
      captured.try_emplace(entry);
      targets.insert(entry);
    } else {
      leaves.insert(input.body());
    }
  }
  if (!options.grad_outputs.empty() && options.grad_outputs.size() != outputs.size())
    throw ValueError("grad: grad_outputs must have one gradient for each of " + std::to_string(outputs.size()) +
                     " outputs; got " + std::to_string(options.grad_outputs.size()));
  Tensors seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_on_tape("grad: output", outputs[i]);
    const bool given = !options.grad_outputs.empty() && options.grad_outputs[i].defined();
    if (given) check_gradient("grad", outputs[i], options.grad_outputs[i]);
    seeds.push_back(given ? options.grad_outputs[i] : seed_gradient("grad", outputs[i]));
  }
  LeafSet used;
  EntrySet paths;
  add_paths(outputs, targets, leaves, used, 0, paths);
  if (!options.allow_unused) check_used(inputs, paths, used);
  StateGuard outside({nullptr, nullptr, &paths, &leaves});
  Sweep sweep(options.retain_graph, options.create_graph);
  for (std::size_t i = 0; i < outputs.size(); ++i) sweep.start(outputs[i], seeds[i]);
  sweep.run(&captured);
  Tensors result;
  for (const Tensor& input : inputs) {
    const Entry* entry = input.body()->entry.get();
    const Sweep::Leaf* leaf = sweep.leaf(input.body());
    result.push_back(entry ? captured[entry] : leaf ? leaf->gradient : Tensor());
    if (!result.back().defined() && !options.allow_unused) result.back() = zeros_like(input.detach());
  }
  return result;
}

}  // namespace autograd

void Tensor::backward(const BackwardOptions& options, SourceLocation where) const {
  const autograd::UserLine line(where);
  autograd::check_on_tape("backward", *this);
  autograd::backward(*this, autograd::seed_gradient("backward", *this), options);
}

void Tensor::backward(const Tensor& gradient, const BackwardOptions& options, SourceLocation where) const {
  const autograd::UserLine line(where);
  autograd::check_on_tape("backward", *this);
  autograd::check_gradient("backward", *this, gradient);
  autograd::backward(*this, gradient, options);
}

}  // namespace tapegrad
