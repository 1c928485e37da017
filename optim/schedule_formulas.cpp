// What each schedule's settings must be, and its rate at a step.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <tapegrad/core/require.hpp>
#include <tapegrad/optim/schedule.hpp>

namespace tapegrad::optim {
namespace {

void require_rate(const char* schedule, const char* what, double value) {
  require(value >= 0 && std::isfinite(value), "{}: {} must be finite and not negative; got {}", schedule, what, value);
}

/// From `first` to `last` as `progress` goes from 0 to 1: half a cosine.
double half_cosine(double first, double last, double progress) {
  return last + 0.5 * (first - last) * (1 + std::cos(std::numbers::pi * progress));
}

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

/// So many steps, for a picture: a number that can be multiplied.
std::int64_t shown(std::int64_t steps) { return std::clamp<std::int64_t>(steps, 0, std::int64_t{1} << 40); }

}  // namespace

Curve::Curve(const StepLROptions& o) : name("StepLR"), span(4 * shown(o.step_size)) {
  require(o.step_size > 0, "{}: step_size must be positive; got {}", name, o.step_size);
  require_rate(name, "gamma", o.gamma);
  rate = [o](double base, std::int64_t step) {
    return base * std::pow(o.gamma, static_cast<double>(step / o.step_size));
  };
}

Curve::Curve(const MultiStepLROptions& o) : name("MultiStepLR") {
  require(!o.milestones.empty(), "{}: milestones must be steps; got none", name);
  for (const std::int64_t milestone : o.milestones)
    require(milestone >= 0, "{}: milestones must not be negative; got {}", name, milestone);
  require_rate(name, "gamma", o.gamma);
  span = shown(*std::max_element(o.milestones.begin(), o.milestones.end())) * 4 / 3 + 1;
  rate = [o](double base, std::int64_t step) {
    const auto is_past = [step](std::int64_t milestone) { return milestone <= step; };
    const auto past = std::count_if(o.milestones.begin(), o.milestones.end(), is_past);
    return base * std::pow(o.gamma, static_cast<double>(past));
  };
}

Curve::Curve(const ExponentialLROptions& o) : name("ExponentialLR"), span(100) {
  require(o.gamma > 0 && std::isfinite(o.gamma), "{}: gamma must be finite and positive; got {}", name, o.gamma);
  rate = [o](double base, std::int64_t step) { return base * std::pow(o.gamma, static_cast<double>(step)); };
}

Curve::Curve(const LinearLROptions& o) : name("LinearLR"), span(2 * shown(o.total_iters)) {
  require_rate(name, "start_factor", o.start_factor);
  require_rate(name, "end_factor", o.end_factor);
  require(o.total_iters > 0, "{}: total_iters must be positive; got {}", name, o.total_iters);
  rate = [o](double base, std::int64_t step) {
    const double progress = ratio(std::min(step, o.total_iters), o.total_iters);
    return base * (o.start_factor + (o.end_factor - o.start_factor) * progress);
  };
}

Curve::Curve(const ConstantLROptions& o) : name("ConstantLR"), span(2 * shown(o.total_iters)) {
  require_rate(name, "factor", o.factor);
  require(o.total_iters >= 0, "{}: total_iters must not be negative; got {}", name, o.total_iters);
  rate = [o](double base, std::int64_t step) { return step < o.total_iters ? base * o.factor : base; };
}

Curve::Curve(const CosineAnnealingLROptions& o) : name("CosineAnnealingLR"), span(shown(o.T_max) + 1) {
  require(o.T_max > 0, "{}: T_max must be positive; got {}", name, o.T_max);
  require_rate(name, "eta_min", o.eta_min);
  rate = [o](double base, std::int64_t step) { return half_cosine(base, o.eta_min, ratio(step, o.T_max)); };
}

Curve::Curve(const CosineAnnealingWarmRestartsOptions& o) : name("CosineAnnealingWarmRestarts") {
  require(o.T_0 > 0, "{}: T_0 must be positive; got {}", name, o.T_0);
  require(o.T_mult >= 1 && o.T_mult <= 1000, "{}: T_mult must be from 1 to 1000; got {}", name, o.T_mult);
  require_rate(name, "eta_min", o.eta_min);
  span = shown(o.T_0) * (1 + o.T_mult + o.T_mult * o.T_mult);
  rate = [o](double base, std::int64_t step) {
    std::int64_t length = o.T_0;
    if (o.T_mult == 1) step %= o.T_0;
    while (step >= length) {
      step -= length;
      if (__builtin_mul_overflow(length, o.T_mult, &length)) length = INT64_MAX;
    }
    return half_cosine(base, o.eta_min, ratio(step, length));
  };
}

Curve::Curve(const OneCycleLROptions& o) : name("OneCycleLR"), span(shown(o.total_steps)) {
  if (o.max_lr) require_rate(name, "max_lr", *o.max_lr);
  require(o.total_steps > 0, "{}: total_steps must be positive; got {}", name, o.total_steps);
  require(o.pct_start >= 0 && o.pct_start <= 1, "{}: pct_start must be in [0, 1]; got {}", name, o.pct_start);
  for (const double factor : {o.div_factor, o.final_div_factor})
    require(factor > 0 && std::isfinite(factor), "{}: div_factor and final_div_factor must be positive; got {}", name,
            factor);
  rate = [o](double base, std::int64_t step) {
    const double highest = o.max_lr.value_or(base), first = highest / o.div_factor, last = first / o.final_div_factor;
    const double end = static_cast<double>(o.total_steps - 1), at = std::min(static_cast<double>(step), end);
    const double summit = o.pct_start * static_cast<double>(o.total_steps) - 1;
    const auto between = [&](double from, double to, double progress) {
      return o.anneal == Anneal::cos ? half_cosine(from, to, progress) : from + (to - from) * progress;
    };
    if (at <= summit) return between(first, highest, summit > 0 ? at / summit : 1.0);
    return between(highest, last, (at - summit) / (end - summit));
  };
}

Curve::Curve(const LambdaLROptions& o) : name("LambdaLR"), span(100) {
  require(static_cast<bool>(o.lr_lambda), "{}: lr_lambda must be a function; got none", name);
  rate = [o](double base, std::int64_t step) { return base * o.lr_lambda(step); };
}

Curve::Curve(const CosineOptions& o) : name("CosineSchedule"), span(shown(o.total_steps) + 1) {
  require(o.total_steps > 0, "{}: total_steps must be positive; got {}", name, o.total_steps);
  require(o.warmup_steps >= 0 && o.warmup_steps <= o.total_steps,
          "{}: warmup_steps must be in [0, total_steps]; got {}", name, o.warmup_steps);
  require_rate(name, "min_lr", o.min_lr);
  rate = [o](double base, std::int64_t step) {
    if (step < o.warmup_steps) return base * ratio(step + 1, o.warmup_steps);
    if (step >= o.total_steps) return o.min_lr;
    return half_cosine(base, o.min_lr, ratio(step - o.warmup_steps, o.total_steps - o.warmup_steps));
  };
}

Curve::Curve(const SequentialLROptions& o) : name("SequentialLR") {
  const auto& [schedules, milestones] = o;
  require(!schedules.empty() && schedules.size() == milestones.size() + 1,
          "{}: there must be one schedule more than milestones; got {} and {}", name, schedules.size(),
          milestones.size());
  for (std::size_t i = 0; i < milestones.size(); ++i)
    require(milestones[i] > (i ? milestones[i - 1] : 0), "{}: milestones must be positive and rise; got {}", name,
            milestones[i]);
  span = shown(milestones.empty() ? 0 : milestones.back()) + schedules.back().span;
  rate = [o](double base, std::int64_t step) {
    const auto next = std::upper_bound(o.milestones.begin(), o.milestones.end(), step);
    const std::int64_t start = next == o.milestones.begin() ? 0 : *(next - 1);
    return o.schedules[static_cast<std::size_t>(next - o.milestones.begin())].rate(base, step - start);
  };
}

}  // namespace tapegrad::optim
