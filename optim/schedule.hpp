// Learning-rate schedules. step() is called after the optimizer's; the constructor sets the first rate.
#pragma once
#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad::optim {

struct CosineOptions {
  std::int64_t total_steps = 0;
  std::int64_t warmup_steps = 0;
  double min_lr = 0.0;
};

/// Linear warm-up, (t + 1) / warmup_steps of the group's rate; then half a cosine down to min_lr at total_steps, and
/// constant. The rates that the groups have when it is made are the highest ones. The optimizer must outlive it.
class CosineSchedule {
 public:
  CosineSchedule(Optimizer& optimizer, const CosineOptions& options);

  void step() { set_steps(steps_ + 1); }
  /// Steps taken so far.
  std::int64_t steps() const { return steps_; }
  /// Goes to this step, as after resuming.
  void set_steps(std::int64_t steps);
  /// The rate of a group at any step; a closed form, so that nothing depends on the steps before.
  double lr_at(std::int64_t step, std::size_t group = 0) const;

 private:
  Optimizer& optimizer_;
  CosineOptions options_;
  std::vector<double> highest_;
  std::int64_t steps_ = 0;
};

}  // namespace tapegrad::optim
