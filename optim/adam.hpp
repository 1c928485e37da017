// Adam (Kingma and Ba, 2014) and AdamW (Loshchilov and Hutter, 2017), which differ in the decay alone.
#pragma once
#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad::optim {

template <bool decoupled>
struct AdamOptionsOf {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  /// Adam: added to the gradient, times the parameter (L2). AdamW: before each step the parameter is multiplied by 1 -
  /// lr weight_decay; a row of zeros stays zero.
  double weight_decay = decoupled ? 1e-2 : 0.0;
  /// Divides by the root of the largest second moment so far.
  bool amsgrad = false;
  bool maximize = false;
};

/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
template <bool decoupled>
class AdamOf final : public Optimizer {
 public:
  using Options = AdamOptionsOf<decoupled>;
  explicit AdamOf(Tensors parameters, const Options& options = {})
      : AdamOf(std::vector<ParamGroup>{{.parameters = std::move(parameters)}}, options) {}
  explicit AdamOf(std::vector<ParamGroup> groups, const Options& options = {});

 private:
  std::array<bool, kSlots> needs(const ParamGroup& group) const override { return {true, true, *group.amsgrad}; }
  void update(const Item& item, std::int64_t begin, std::int64_t end) const override;
};

using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
using Adam = AdamOf<false>;
using AdamW = AdamOf<true>;

}  // namespace tapegrad::optim
