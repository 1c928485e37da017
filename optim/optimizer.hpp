// Optimizer: what all update rules share.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <tapegrad/autograd/state_dict.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad::optim {

/// How Muon scales a matrix's direction: by sqrt(max(1, rows / columns)), or by 0.2 sqrt(max(rows, columns)), which
/// makes steps as long as AdamW's, so that both take the same lr.
enum class AdjustLr { original, match_rms_adamw };

/// Parameters with settings of their own; what is left out is the optimizer's. A setting that the optimizer doesn't
/// have is a ValueError.
struct ParamGroup {
  Tensors parameters = {};
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
  std::optional<double> momentum = {};
  std::optional<double> dampening = {};
  std::optional<bool> nesterov = {};
  std::optional<std::pair<double, double>> betas = {};
  std::optional<double> eps = {};
  std::optional<bool> amsgrad = {};
  std::optional<double> alpha = {};
  std::optional<bool> centered = {};
  std::optional<bool> maximize = {};
  std::optional<std::int64_t> ns_steps = {};
  std::optional<AdjustLr> adjust_lr = {};
  /// Muon: false for a group that AdamW steps.
  std::optional<bool> use_muon = {};
};

/// Holds handles to the parameters and steps them along their gradients, all in one pass over memory. A step writes
/// parameters in place, off the tape; it never changes a gradient, and skips a parameter that has none, with its state.
/// ValueError for an empty list, for a parameter given twice or expanded, and for settings out of range.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(Optimizer&&) = delete;  // and so no copies

  /// ShapeError or DtypeError, with nothing changed, if a gradient or a state doesn't fit its parameter, as after
  /// Module::to.
  void step();
  /// Clears the gradients: they are undefined until the next sweep.
  void zero_grad() const;

  /// With all settings that the optimizer has, and no others.
  const std::vector<ParamGroup>& groups() const { return groups_; }
  /// More parameters, as when layers are unfrozen. The errors of a constructor; then nothing is added.
  void add_param_group(ParamGroup group);
  /// IndexError if there is no such group.
  double lr(std::size_t group = 0) const { return *groups_[checked(group)].lr; }
  /// For every group.
  void set_lr(double lr);
  void set_lr(double lr, std::size_t group);

  /// "groups.0.lr" and the other settings, "groups.0.parameters" (how many); and of each parameter that was stepped,
  /// counted over all groups, "state.0.step" and what its rule remembers under PyTorch's names ("state.0.exp_avg").
  /// The tensors share memory with the optimizer's.
  StateDict state_dict() const;
  /// Copies values in, settings too; the next steps are then those of the saved optimizer, to the last bit. The groups
  /// must be alike. ValueError that lists all that is missing, unexpected or wrong, and then nothing is changed.
  void load_state_dict(const StateDict& entries);

 protected:
  static constexpr std::size_t kSlots = 3;
  /// What is remembered of a parameter: arrays of its shape and dtype, zero at first, undefined until needed.
  struct State {
    std::int64_t steps = 0;
    std::array<core::Array, kSlots> slots;
  };
  /// One parameter in a step, which has been counted. Arrays are contiguous and of one dtype.
  struct Item {
    const Tensor* tensor;
    State* state;
    const ParamGroup* group;
    core::Array parameter;
    core::Array gradient;    // only to be read
    core::Array memory;      // the parameter's own, which may have gaps
    bool first = false;      // its first step, or the first with an array of the state
    std::int64_t begin = 0;  // its first element, counted over all items
  };

  /// `name` (a literal) is for error texts; `slots` are the names of a state's arrays; `defaults` are all settings that
  /// the optimizer has.
  Optimizer(const char* name, std::array<std::string_view, kSlots> slots, ParamGroup defaults)
      : name_(name), slot_names_(slots), defaults_(std::move(defaults)) {}
  /// The end of every constructor.
  void start(std::vector<ParamGroup> groups);

  /// All settings that this group has, with the optimizer's values.
  virtual const ParamGroup& defaults(const ParamGroup&) const { return defaults_; }
  /// ValueError if settings, each in its range, don't fit together.
  virtual void check(const ParamGroup&) const {}
  /// Which of a state's arrays a group needs.
  virtual std::array<bool, kSlots> needs(const ParamGroup& group) const = 0;
  /// Updates elements begin ... end - 1 of a parameter, on this thread.
  virtual void update(const Item& item, std::int64_t begin, std::int64_t end) const = 0;
  /// Updates everything: by default elementwise, by sweep().
  virtual void update_all(std::span<Item> items) const { sweep(items); }
  /// update() for all elements of all items, in parallel.
  void sweep(std::span<Item> items) const;
  const char* name() const { return name_; }

 private:
  struct Loaded;
  Loaded read(const StateDict& entries) const;
  std::vector<Item> collect();
  void check_parameters(const Tensors& parameters) const;
  void check_ranges(const ParamGroup& settings) const;
  /// `group`; IndexError if there is no such group.
  std::size_t checked(std::size_t group) const;

  const char* name_;
  std::array<std::string_view, kSlots> slot_names_;
  ParamGroup defaults_;
  std::vector<ParamGroup> groups_;
  std::vector<State> states_;  // one for each parameter
  std::vector<Item> items_;    // empty between steps; it keeps its memory
};

/// Matrices (and what has more dimensions), which decay by so much, or as the optimizer says, and the rest (biases,
/// norms), which doesn't. Embeddings are matrices.
std::vector<ParamGroup> decay_groups(const Tensors& parameters, std::optional<double> weight_decay = {});
std::vector<ParamGroup> decay_groups(const std::vector<NamedTensor>& parameters,
                                     std::optional<double> weight_decay = {});
/// Of a module.
template <class Module>
requires requires(const Module& module) { Tensors(module.parameters()); }
std::vector<ParamGroup> decay_groups(const Module& module, std::optional<double> weight_decay = {}) {
  return decay_groups(module.parameters(), weight_decay);
}

}  // namespace tapegrad::optim
