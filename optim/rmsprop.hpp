// RMSprop (Hinton, 2012; centered: Graves, 2013), as PyTorch has it.
#pragma once
#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  /// Divides by the root of the variance instead of the second moment.
  bool centered = false;
  bool maximize = false;
};

/// g += weight_decay p; v = alpha v + (1 - alpha) g^2; centered: m = alpha m + (1 - alpha) g, and v - m^2 in v's place;
/// d = g / (sqrt(v) + eps); with momentum: b = momentum b + d, and d = b; p -= lr d.
class RMSprop final : public Optimizer {
 public:
  explicit RMSprop(Tensors parameters, const RMSpropOptions& options = {})
      : RMSprop(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}
  explicit RMSprop(std::vector<ParamGroup> groups, const RMSpropOptions& options = {});

 private:
  void check(const ParamGroup& group) const override;
  std::array<bool, kSlots> needs(const ParamGroup& group) const override {
    return {true, *group.momentum > 0, *group.centered};
  }
  void update(const Item& item, std::int64_t begin, std::int64_t end) const override;
};

}  // namespace tapegrad::optim
