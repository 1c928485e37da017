// Stochastic gradient descent.
#pragma once
#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  /// Needs momentum > 0 and dampening = 0.
  bool nesterov = false;
  bool maximize = false;
};

/// g += weight_decay p; with momentum: b = g at first, later momentum b + (1 - dampening) g, and g = b, or g + momentum
/// b with nesterov; p -= lr g.
class SGD final : public Optimizer {
 public:
  explicit SGD(Tensors parameters, const SGDOptions& options = {})
      : SGD(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}
  explicit SGD(std::vector<ParamGroup> groups, const SGDOptions& options = {});

 private:
  void check(const ParamGroup& group) const override;
  std::array<bool, kSlots> needs(const ParamGroup& group) const override;
  void update(const Item& item, std::int64_t begin, std::int64_t end) const override;
};

}  // namespace tapegrad::optim
