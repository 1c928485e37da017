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
/// list, for a parameter given twice, and for settings out of range.
class Optimizer {
 public:
  struct Group {
    Tensors parameters;
    double lr;
    double weight_decay;
  };

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  void step();
  /// Clears the gradients: they are undefined until the next sweep.
  void zero_grad() const;

  const std::vector<Group>& groups() const { return groups_; }
  double lr(std::size_t group = 0) const { return groups_.at(group).lr; }
  /// For every group.
  void set_lr(double lr);
  void set_lr(double lr, std::size_t group);

 protected:
  /// `name` is the optimizer's, for error texts (a literal); lr and weight_decay are the defaults of groups.
  Optimizer(const char* name, std::vector<ParamGroup> groups, double lr, double weight_decay);

  /// Updates parameter number `index` (counted over all groups). Both arrays are contiguous and of one dtype.
  virtual void update(std::size_t index, const core::Array& parameter, const core::Array& gradient,
                      const Group& group) = 0;
  /// ValueError unless value >= 0.
  void check_not_negative(const char* setting, double value) const;
  std::size_t parameter_count() const;

 private:
  const char* name_;
  std::vector<Group> groups_;
};

}  // namespace tapegrad::optim
