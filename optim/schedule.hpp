// Learning-rate schedules. The constructor sets the first rate; step() is called after the optimizer's. Names, defaults
// and values are PyTorch's.
#pragma once
#include <algorithm>
#include <functional>
#include <string>

#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad::optim {

// What a schedule is told, and its formula: `base` is the group's own rate.

/// base gamma^floor(step / step_size).
struct StepLROptions {
  std::int64_t step_size = 0;
  double gamma = 0.1;
};

/// base gamma^(how many milestones are at or before step).
struct MultiStepLROptions {
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;
};

/// base gamma^step.
struct ExponentialLROptions {
  double gamma = 0.0;
};

/// base times a factor that goes in a straight line from start_factor to end_factor, where it is from total_iters on.
struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  std::int64_t total_iters = 5;
};

/// base factor for total_iters steps, then base.
struct ConstantLROptions {
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
};

/// eta_min + (base - eta_min) (1 + cos(pi step / T_max)) / 2; it goes up again after T_max.
struct CosineAnnealingLROptions {
  std::int64_t T_max = 0;
  double eta_min = 0.0;
};

/// Half a cosine from base to eta_min over T_0 steps, again and again, each T_mult times as long as the one before
/// (Loshchilov and Hutter, 2016).
struct CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0 = 0;
  std::int64_t T_mult = 1;
  double eta_min = 0.0;
};

enum class Anneal { cos, linear };

/// From max_lr / div_factor up to max_lr for pct_start of total_steps, then down to max_lr / div_factor /
/// final_div_factor, where it stays (Smith and Topin, 2017). Momentum is left alone.
struct OneCycleLROptions {
  /// Every group's highest rate; when left out, base.
  std::optional<double> max_lr = {};
  std::int64_t total_steps = 0;
  double pct_start = 0.3;
  Anneal anneal = Anneal::cos;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
};

/// base lr_lambda(step).
struct LambdaLROptions {
  std::function<double(std::int64_t step)> lr_lambda;
};

/// Linear warm-up, (step + 1) / warmup_steps of base; then half a cosine down to min_lr at total_steps, and constant.
struct CosineOptions {
  std::int64_t total_steps = 0;
  std::int64_t warmup_steps = 0;
  double min_lr = 0.0;
};

struct SequentialLROptions;

/// Any of these options, checked: ValueError for settings out of range.
struct Curve {
  Curve(const StepLROptions& options);
  Curve(const MultiStepLROptions& options);
  Curve(const ExponentialLROptions& options);
  Curve(const LinearLROptions& options);
  Curve(const ConstantLROptions& options);
  Curve(const CosineAnnealingLROptions& options);
  Curve(const CosineAnnealingWarmRestartsOptions& options);
  Curve(const OneCycleLROptions& options);
  Curve(const LambdaLROptions& options);
  Curve(const CosineOptions& options);
  Curve(const SequentialLROptions& options);

  const char* name;
  std::function<double(double base, std::int64_t step)> rate;
  /// How many steps show what it does.
  std::int64_t span;
};

/// One after the other: number i begins, with its own step 0, at milestones[i - 1].
struct SequentialLROptions {
  std::vector<Curve> schedules;
  std::vector<std::int64_t> milestones;
};

/// Sets the optimizer's rates step by step. The rates that the groups have when it is made (or when they are added) are
/// their bases. The optimizer must outlive it.
class Schedule {
 public:
  Schedule(Optimizer& optimizer, Curve curve);
  Schedule(Schedule&&) = delete;  // and so no copies

  void step() { set_steps(steps_ + 1); }
  /// Steps taken so far.
  std::int64_t steps() const { return steps_; }
  /// Goes to this step, as after resuming.
  void set_steps(std::int64_t steps);
  /// The rate of a group at any step; a closed form, so that nothing depends on the steps before.
  /// ValueError if `step` is negative.
  double lr_at(std::int64_t step, std::size_t group = 0) const;

  /// "steps", "base_lrs" and "last_lrs": those of all groups now, which may have been set by hand.
  StateDict state_dict() const;
  /// ValueError that lists all that is missing, unexpected or wrong, and then nothing is changed.
  void load_state_dict(const StateDict& entries);

  /// The rates of a group over so many steps: the first, the highest and the last, and a picture in block characters.
  std::string curve(std::int64_t steps, std::size_t group = 0) const;
  /// The curve of as many steps as show what it does.
  std::string to_string() const { return curve(std::max<std::int64_t>(curve_.span, 1)); }

 private:
  Optimizer& optimizer_;
  Curve curve_;
  std::vector<double> bases_;
  std::int64_t steps_ = 0;
};

template <class Options>
class ScheduleOf final : public Schedule {
 public:
  ScheduleOf(Optimizer& optimizer, const Options& options) : Schedule(optimizer, options) {}
};

using StepLR = ScheduleOf<StepLROptions>;
using MultiStepLR = ScheduleOf<MultiStepLROptions>;
using ExponentialLR = ScheduleOf<ExponentialLROptions>;
using LinearLR = ScheduleOf<LinearLROptions>;
using ConstantLR = ScheduleOf<ConstantLROptions>;
using CosineAnnealingLR = ScheduleOf<CosineAnnealingLROptions>;
using CosineAnnealingWarmRestarts = ScheduleOf<CosineAnnealingWarmRestartsOptions>;
using OneCycleLR = ScheduleOf<OneCycleLROptions>;
using LambdaLR = ScheduleOf<LambdaLROptions>;
using SequentialLR = ScheduleOf<SequentialLROptions>;
using CosineSchedule = ScheduleOf<CosineOptions>;

}  // namespace tapegrad::optim
