// What each schedule's settings must be, and its rate at a step.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <tapegrad/core/require.hpp>
#include <tapegrad/optim/schedule.hpp>

namespace tapegrad::optim {
namespace {

void require_rate(const char* schedule, const char* name, double value) {
  require(value >= 0 && std::isfinite(value), "{}: {} must be finite and not negative; got {}", schedule, name, value);
}

/// From `first` to `last` as `progress` goes from 0 to 1: half a cosine.
double half_cosine(double first, double last, double progress) {
  return last + 0.5 * (first - last) * (1 + std::cos(std::numbers::pi * progress));
}

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

}  // namespace

void StepLROptions::check() const {
  require(step_size > 0, "{}: step_size must be positive; got {}", kName, step_size);
  require_rate(kName, "gamma", gamma);
}
double StepLROptions::rate(double base, std::int64_t step) const {
  return base * std::pow(gamma, static_cast<double>(step / step_size));
}

void MultiStepLROptions::check() const {
  require(!milestones.empty(), "{}: milestones must be steps; got {}", kName, "none");
  for (const std::int64_t milestone : milestones)
    require(milestone >= 0, "{}: milestones must not be negative; got {}", kName, milestone);
  require_rate(kName, "gamma", gamma);
}
double MultiStepLROptions::rate(double base, std::int64_t step) const {
  const auto is_past = [step](std::int64_t milestone) { return milestone <= step; };
  return base * std::pow(gamma, static_cast<double>(std::count_if(milestones.begin(), milestones.end(), is_past)));
}
std::int64_t MultiStepLROptions::span() const {
  return milestones.empty() ? 0 : *std::max_element(milestones.begin(), milestones.end()) * 4 / 3 + 1;
}

void ExponentialLROptions::check() const {
  require(gamma > 0 && std::isfinite(gamma), "{}: gamma must be finite and positive; got {}", kName, gamma);
}
double ExponentialLROptions::rate(double base, std::int64_t step) const {
  return base * std::pow(gamma, static_cast<double>(step));
}

void LinearLROptions::check() const {
  require_rate(kName, "start_factor", start_factor);
  require_rate(kName, "end_factor", end_factor);
  require(total_iters > 0, "{}: total_iters must be positive; got {}", kName, total_iters);
}
double LinearLROptions::rate(double base, std::int64_t step) const {
  return base * (start_factor + (end_factor - start_factor) * ratio(std::min(step, total_iters), total_iters));
}

void ConstantLROptions::check() const {
  require_rate(kName, "factor", factor);
  require(total_iters >= 0, "{}: total_iters must not be negative; got {}", kName, total_iters);
}
double ConstantLROptions::rate(double base, std::int64_t step) const {
  return step < total_iters ? base * factor : base;
}

void CosineAnnealingLROptions::check() const {
  require(T_max > 0, "{}: T_max must be positive; got {}", kName, T_max);
  require_rate(kName, "eta_min", eta_min);
}
double CosineAnnealingLROptions::rate(double base, std::int64_t step) const {
  return half_cosine(base, eta_min, ratio(step, T_max));
}

void CosineAnnealingWarmRestartsOptions::check() const {
  require(T_0 > 0, "{}: T_0 must be positive; got {}", kName, T_0);
  require(T_mult >= 1 && T_mult <= 1000, "{}: T_mult must be from 1 to 1000; got {}", kName, T_mult);
  require_rate(kName, "eta_min", eta_min);
}
double CosineAnnealingWarmRestartsOptions::rate(double base, std::int64_t step) const {
  std::int64_t length = T_0;
  if (T_mult == 1) step %= T_0;
  while (step >= length) {
    step -= length;
    if (__builtin_mul_overflow(length, T_mult, &length)) length = INT64_MAX;
  }
  return half_cosine(base, eta_min, ratio(step, length));
}

void OneCycleLROptions::check() const {
  if (max_lr) require_rate(kName, "max_lr", *max_lr);
  require(total_steps > 0, "{}: total_steps must be positive; got {}", kName, total_steps);
  require(pct_start >= 0 && pct_start <= 1, "{}: pct_start must be in [0, 1]; got {}", kName, pct_start);
  for (const double factor : {div_factor, final_div_factor})
    require(factor > 0 && std::isfinite(factor), "{}: div_factor and final_div_factor must be positive; got {}", kName,
            factor);
}
double OneCycleLROptions::rate(double base, std::int64_t step) const {
  const double highest = max_lr.value_or(base), first = highest / div_factor, last = first / final_div_factor;
  const double summit = pct_start * static_cast<double>(total_steps) - 1;
  const double at = static_cast<double>(std::min(step, total_steps - 1)), end = static_cast<double>(total_steps - 1);
  const auto between = [&](double from, double to, double progress) {
    return anneal == Anneal::cos ? half_cosine(from, to, progress) : from + (to - from) * progress;
  };
  if (at <= summit) return between(first, highest, summit > 0 ? at / summit : 1.0);
  return between(highest, last, (at - summit) / (end - summit));
}

void LambdaLROptions::check() const {
  require(bool(lr_lambda), "{}: lr_lambda must be a function; got {}", kName, "none");
}

void CosineOptions::check() const {
  require(total_steps > 0, "{}: total_steps must be positive; got {}", kName, total_steps);
  require(warmup_steps >= 0 && warmup_steps <= total_steps, "{}: warmup_steps must be in [0, total_steps]; got {}",
          kName, warmup_steps);
  require_rate(kName, "min_lr", min_lr);
}
double CosineOptions::rate(double base, std::int64_t step) const {
  if (step < warmup_steps) return base * ratio(step + 1, warmup_steps);
  if (step >= total_steps) return min_lr;
  return half_cosine(base, min_lr, ratio(step - warmup_steps, total_steps - warmup_steps));
}

void SequentialLROptions::check() const {
  require(!schedules.empty() && schedules.size() == milestones.size() + 1,
          "{}: there must be one schedule more than milestones; got {}", kName,
          fmt::format("{} and {}", schedules.size(), milestones.size()));
  for (std::size_t i = 0; i < milestones.size(); ++i)
    require(milestones[i] > (i ? milestones[i - 1] : 0), "{}: milestones must be positive and rise; got {}", kName,
            milestones[i]);
}
double SequentialLROptions::rate(double base, std::int64_t step) const {
  const auto next = std::upper_bound(milestones.begin(), milestones.end(), step);
  const std::int64_t start = next == milestones.begin() ? 0 : *(next - 1);
  return schedules[static_cast<std::size_t>(next - milestones.begin())].rate(base, step - start);
}
std::int64_t SequentialLROptions::span() const {
  return schedules.empty() ? 0 : (milestones.empty() ? 0 : milestones.back()) + schedules.back().span;
}

}  // namespace tapegrad::optim
