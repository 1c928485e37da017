// The schedule that follows a measured value instead of the steps.
#pragma once
#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad::optim {

enum class PlateauMode { min, max };
enum class ThresholdMode { rel, abs };

struct ReduceLROnPlateauOptions {
  /// Whether a better value is a smaller or a larger one.
  PlateauMode mode = PlateauMode::min;
  double factor = 0.1;
  std::int64_t patience = 10;
  /// A value is better if it is so by this share of the best, or by this amount.
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::rel;
  /// For so many steps after a reduction nothing is counted.
  std::int64_t cooldown = 0;
  double min_lr = 0.0;
  /// A reduction by less than this is left out.
  double eps = 1e-8;
};

/// Multiplies every group's rate by `factor` when the value has not become better for more than `patience` steps; NaN
/// is no better than anything. PyTorch's rule and names. The optimizer must outlive it.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  ReduceLROnPlateau(ReduceLROnPlateau&&) = delete;  // and so no copies

  /// After an evaluation that gave this value.
  void step(double value);
  double best() const { return best_; }

  /// "best", "num_bad_epochs" and "cooldown_counter"; the rates are part of the optimizer's.
  StateDict state_dict() const;
  /// ValueError that lists all that is missing, unexpected or wrong, and then nothing is changed.
  void load_state_dict(const StateDict& entries);

 private:
  bool is_better(double value) const;

  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t bad_ = 0;
  std::int64_t cooldown_ = 0;
};

}  // namespace tapegrad::optim
