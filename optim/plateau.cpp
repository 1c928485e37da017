#include <tapegrad/optim/plateau.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/optim/reading.hpp>

namespace tapegrad::optim {
namespace {

constexpr const char* kName = "ReduceLROnPlateau";

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : optimizer_(optimizer), options_(options) {
  require(options.factor >= 0 && options.factor < 1, "{}: factor must be in [0, 1); got {}", kName, options.factor);
  require(options.patience >= 0, "{}: patience must not be negative; got {}", kName, options.patience);
  require(options.cooldown >= 0, "{}: cooldown must not be negative; got {}", kName, options.cooldown);
  for (const double value : {options.threshold, options.min_lr, options.eps})
    require(value >= 0 && std::isfinite(value), "{}: threshold, min_lr and eps must be finite and not negative; got {}",
            kName, value);
  if (options.mode == PlateauMode::min && options.threshold_mode == ThresholdMode::rel)
    require(options.threshold < 1, "{}: a relative threshold must be below 1; got {}", kName, options.threshold);
  best_ = (options.mode == PlateauMode::min ? 1 : -1) * std::numeric_limits<double>::infinity();
}

bool ReduceLROnPlateau::is_better(double value) const {
  const double sign = options_.mode == PlateauMode::min ? 1 : -1;
  const double least = options_.threshold_mode == ThresholdMode::rel ? best_ * (1 - sign * options_.threshold)
                                                                     : best_ - sign * options_.threshold;
  return sign * value < sign * least;
}

void ReduceLROnPlateau::step(double value) {
  if (is_better(value)) {
    best_ = value;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    bad_ = 0;
  }
  if (bad_ <= options_.patience) return;
  cooldown_ = options_.cooldown;
  bad_ = 0;
  for (std::size_t group = 0; group < optimizer_.groups().size(); ++group) {
    const double lr = optimizer_.lr(group), reduced = std::max(lr * options_.factor, options_.min_lr);
    if (lr - reduced > options_.eps) optimizer_.set_lr(reduced, group);
  }
}

StateDict ReduceLROnPlateau::state_dict() const {
  return {{"best", tensor(best_, float64)}, {"num_bad_epochs", tensor(bad_)}, {"cooldown_counter", tensor(cooldown_)}};
}

void ReduceLROnPlateau::load_state_dict(const StateDict& entries) {
  Reading reading(kName, entries);
  const StateDict own = state_dict();
  for (const auto& [entry, tensor] : own)
    if (const Tensor* found = reading.get(entry, tensor)) {
      const double value = found->item();
      if (std::isnan(value) || (entry != "best" && value < 0))
        reading.wrong(entry, fmt::format("a number that step() can reach, got {}", value));
    }
  reading.finish();
  best_ = entries.at("best").item();
  bad_ = entries.at("num_bad_epochs").to_vector<std::int64_t>()[0];
  cooldown_ = entries.at("cooldown_counter").to_vector<std::int64_t>()[0];
}

}  // namespace tapegrad::optim
