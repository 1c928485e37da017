#include <tapegrad/optim/schedule.hpp>

#include <algorithm>
#include <cmath>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/optim/reading.hpp>

namespace tapegrad::optim {

Schedule::Schedule(Optimizer& optimizer, Curve curve) : optimizer_(optimizer), curve_(std::move(curve)) {
  set_steps(0);
}

void Schedule::set_steps(std::int64_t steps) {
  require(steps >= 0, "{}: steps must not be negative; got {}", curve_.name, steps);
  for (std::size_t group = bases_.size(); group < optimizer_.groups().size(); ++group)
    bases_.push_back(optimizer_.lr(group));
  std::vector<double> rates;
  for (std::size_t group = 0; group < bases_.size(); ++group) {
    rates.push_back(lr_at(steps, group));
    require(rates.back() >= 0 && std::isfinite(rates.back()),
            "{}: a rate must be finite and not negative; got {} at step {}", curve_.name, rates.back(), steps);
  }
  for (std::size_t group = 0; group < rates.size(); ++group) optimizer_.set_lr(rates[group], group);
  steps_ = steps;
}

double Schedule::lr_at(std::int64_t step, std::size_t group) const {
  require(step >= 0, "{}: step must not be negative; got {}", curve_.name, step);
  const double now = optimizer_.lr(group);  // there is such a group
  return curve_.rate(group < bases_.size() ? bases_[group] : now, step);
}

StateDict Schedule::state_dict() const {
  std::vector<double> bases = bases_, rates;
  for (std::size_t group = 0; group < optimizer_.groups().size(); ++group) rates.push_back(optimizer_.lr(group));
  bases.insert(bases.end(), rates.begin() + static_cast<std::ptrdiff_t>(bases.size()), rates.end());
  const Shape shape{static_cast<std::int64_t>(rates.size())};
  return {{"steps", tensor(steps_)},
          {"base_lrs", from_vector(bases, shape, float64)},
          {"last_lrs", from_vector(rates, shape, float64)}};
}

void Schedule::load_state_dict(const StateDict& entries) {
  Reading reading(curve_.name, entries);
  const StateDict own = state_dict();
  const Tensor* steps = reading.get("steps", own.at("steps"));
  if (steps && steps->item() < 0) reading.wrong("steps", fmt::format("not negative, got {}", steps->item()));
  std::vector<double> read[2];
  for (const auto& [name, to] : {std::pair{"base_lrs", &read[0]}, {"last_lrs", &read[1]}})
    if (const Tensor* rates = reading.get(name, own.at(name)))
      for (const double rate : * to = rates->to_vector<double>())
        if (!(rate >= 0 && std::isfinite(rate)))
          reading.wrong(name, fmt::format("finite and not negative, got {}", rate));
  reading.finish();
  bases_ = read[0];
  steps_ = steps->to_vector<std::int64_t>()[0];
  for (std::size_t group = 0; group < bases_.size(); ++group) optimizer_.set_lr(read[1][group], group);
}

std::string Schedule::curve(std::int64_t steps, std::size_t group) const {
  require(steps >= 1, "{}: a curve must have steps; got {}", curve_.name, steps);
  constexpr std::int64_t kWidth = 60, kRows = 4, kParts = 8, kMostSteps = 1 << 20;
  constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::int64_t stride = steps / kMostSteps + 1, width = std::min(kWidth, steps);
  const std::int64_t gaps = std::max<std::int64_t>(width - 1, 1), whole = (steps - 1) / gaps, rest = (steps - 1) % gaps;
  double highest = lr_at(0, group);
  std::int64_t where = 0;
  for (std::int64_t i = 0; i <= (steps - 1) / stride; ++i)
    if (const double rate = lr_at(i * stride, group); rate > highest) {
      highest = rate;
      where = i * stride;
    }
  std::string text = fmt::format("{}, {} steps: first {:.6g}, highest {:.6g} at step {}, last {:.6g}", curve_.name,
                                 steps, lr_at(0, group), highest, where, lr_at(steps - 1, group));
  for (std::int64_t row = kRows - 1; row >= 0; --row) {
    std::string line;
    for (std::int64_t column = 0; column < width; ++column) {
      const double share = highest > 0 ? lr_at(column * whole + column * rest / gaps, group) / highest : 0;
      const std::int64_t level = std::llround(std::clamp(share, 0.0, 1.0) * kRows * kParts);
      line += kBlocks[std::clamp<std::int64_t>(level - row * kParts, 0, kParts)];
    }
    text += "\n" + line.substr(0, line.find_last_not_of(' ') + 1);
  }
  return text;
}

}  // namespace tapegrad::optim
