// Adam (Kingma and Ba, 2014) and AdamW (Loshchilov and Hutter, 2017).
#pragma once
#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  /// Added to the gradient, times the parameter (L2).
  double weight_decay = 0.0;
  /// Divides by the root of the largest second moment so far.
  bool amsgrad = false;
  bool maximize = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  /// Before each step the parameter is multiplied by 1 - lr weight_decay; a row of zeros stays zero.
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
};

/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
class AdamBase : public Optimizer {
 protected:
  AdamBase(const char* name, std::vector<ParamGroup> groups, const AdamOptions& options, bool decoupled);

 private:
  struct State {
    std::int64_t steps = 0;
    core::Array exp_avg;
    core::Array exp_avg_sq;
    core::Array max_exp_avg_sq;  // with amsgrad
  };
  void update(std::size_t index, const core::Array& parameter, const core::Array& gradient,
              const Group& group) override;

  AdamOptions options_;
  bool decoupled_;
  std::vector<State> states_;
};

class Adam final : public AdamBase {
 public:
  explicit Adam(Tensors parameters, const AdamOptions& options = {});
  explicit Adam(std::vector<ParamGroup> groups, const AdamOptions& options = {});
};

class AdamW final : public AdamBase {
 public:
  explicit AdamW(Tensors parameters, const AdamWOptions& options = {});
  explicit AdamW(std::vector<ParamGroup> groups, const AdamWOptions& options = {});
};

}  // namespace tapegrad::optim
