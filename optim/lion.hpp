// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023).
#pragma once
#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad::optim {

struct LionOptions {
  /// Three to ten times below AdamW's, with a weight_decay that is as much above.
  double lr = 1e-4;
  std::pair<double, double> betas = {0.9, 0.99};
  /// Before each step the parameter is multiplied by 1 - lr weight_decay.
  double weight_decay = 0.0;
  bool maximize = false;
};

/// p -= lr (sign(b1 m + (1 - b1) g) + weight_decay p); m = b2 m + (1 - b2) g. The sign of 0 is 0, that of NaN NaN.
class Lion final : public Optimizer {
 public:
  explicit Lion(Tensors parameters, const LionOptions& options = {})
      : Lion(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}
  explicit Lion(std::vector<ParamGroup> groups, const LionOptions& options = {});

 private:
  std::array<bool, kSlots> needs(const ParamGroup&) const override { return {true}; }
  void update(const Item& item, std::int64_t begin, std::int64_t end) const override;
};

}  // namespace tapegrad::optim
