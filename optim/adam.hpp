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
  explicit AdamOf(Tensors parameters, const Options& options = {});
  explicit AdamOf(std::vector<ParamGroup> groups, const Options& options = {});

 private:
  static constexpr const char* kName = decoupled ? "AdamW" : "Adam";
  struct State {
    std::int64_t steps = 0;
    core::Array exp_avg;
    core::Array exp_avg_sq;
    core::Array max_exp_avg_sq;  // with amsgrad
  };
  void update(std::size_t index, const core::Array& parameter, const core::Array& gradient,
              const Group& group) override;
  core::Array state(std::size_t index) const override { return states_[index].exp_avg; }

  Options options_;
  std::vector<State> states_;
};

using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
using Adam = AdamOf<false>;
using AdamW = AdamOf<true>;

}  // namespace tapegrad::optim
