#include <tapegrad/optim/schedule.hpp>

#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace tapegrad::optim {

CosineSchedule::CosineSchedule(Optimizer& optimizer, const CosineOptions& options)
    : optimizer_(optimizer), options_(options) {
  if (options.total_steps <= 0)
    throw ValueError(fmt::format("CosineSchedule: total_steps must be positive; got {}", options.total_steps));
  if (options.warmup_steps < 0 || options.warmup_steps > options.total_steps)
    throw ValueError(fmt::format("CosineSchedule: warmup_steps must be in [0, total_steps = {}]; got {}",
                                 options.total_steps, options.warmup_steps));
  if (!(options.min_lr >= 0 && std::isfinite(options.min_lr)))
    throw ValueError(fmt::format("CosineSchedule: min_lr must be finite and not negative; got {}", options.min_lr));
  for (const Optimizer::Group& group : optimizer.groups()) highest_.push_back(group.lr);
  set_steps(0);
}

void CosineSchedule::set_steps(std::int64_t steps) {
  if (steps < 0) throw ValueError(fmt::format("CosineSchedule: steps must not be negative; got {}", steps));
  steps_ = steps;
  for (std::size_t group = 0; group < highest_.size(); ++group) optimizer_.set_lr(lr_at(steps, group), group);
}

double CosineSchedule::lr_at(std::int64_t step, std::size_t group) const {
  optimizer_.lr(group);  // there is such a group
  const double highest = highest_[group];
  const auto [total, warmup, lowest] = options_;
  if (step < warmup) return highest * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (step >= total) return lowest;
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
  return lowest + 0.5 * (highest - lowest) * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace tapegrad::optim
