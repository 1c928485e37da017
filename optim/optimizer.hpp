// Optimizer: what all update rules share.
#pragma once
#include <optional>

#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad::optim {

/// Parameters with settings of their own; what is left out is the optimizer's.
struct ParamGroup {
  Tensors parameters;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

/// Holds handles to the parameters and steps them along their gradients. A step writes parameters in place, off the
/// tape; it never changes a gradient, and skips a parameter that has none, with its state. ValueError for an empty
/// list, for a parameter given twice or expanded, and for settings out of range.
class Optimizer {
 public:
  struct Group {
    Tensors parameters;
    double lr;
    double weight_decay;
  };

  virtual ~Optimizer() = default;
  Optimizer(Optimizer&&) = delete;  // and so no copies

  /// ShapeError or DtypeError, with nothing changed, if a gradient or a state doesn't fit its parameter, as after
  /// Module::to.
  void step();
  /// Clears the gradients: they are undefined until the next sweep.
  void zero_grad() const;

  const std::vector<Group>& groups() const { return groups_; }
  /// IndexError if there is no such group.
  double lr(std::size_t group = 0) const { return groups_[checked(group)].lr; }
  /// For every group.
  void set_lr(double lr);
  void set_lr(double lr, std::size_t group);

 protected:
  /// `name` is the optimizer's, for error texts (a literal); lr and weight_decay are the defaults of groups.
  Optimizer(const char* name, std::vector<ParamGroup> groups, double lr, double weight_decay);

  /// Updates parameter number `index` (counted over all groups). Both arrays are contiguous and of one dtype.
  virtual void update(std::size_t index, const core::Array& parameter, const core::Array& gradient,
                      const Group& group) = 0;
  /// What is remembered of a parameter, which a step needs in the parameter's shape and dtype; undefined if nothing.
  virtual core::Array state(std::size_t) const { return {}; }
  /// ValueError unless value is finite and >= 0.
  void check_not_negative(const char* setting, double value) const;
  std::size_t parameter_count() const { return parameter_count_; }

 private:
  /// visit(index, parameter, gradient, group) for every parameter that has a gradient.
  template <class Visit>
  void visit_gradients(const Visit& visit);
  /// `group`; IndexError if there is no such group.
  std::size_t checked(std::size_t group) const;

  const char* name_;
  std::vector<Group> groups_;
  std::size_t parameter_count_;
};

}  // namespace tapegrad::optim
