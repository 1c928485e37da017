#include <tapegrad/optim/ema.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/span.hpp>
#include <tapegrad/core/kernels/optimizer_steps.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/core/threads.hpp>
#include <tapegrad/optim/reading.hpp>

namespace tapegrad::optim {

Ema::Ema(Tensors parameters, double decay) : parameters_(std::move(parameters)), decay_(decay) {
  require(decay >= 0 && decay <= 1, "Ema: decay must be in [0, 1]; got {}", decay);
  require(!parameters_.empty(), "Ema: expected parameters; got none; pass a module's parameters()");
  for (const Tensor& parameter : parameters_) {
    autograd::check_defined("Ema", parameter);
    require(parameter.is_leaf() && is_floating(parameter.dtype()),
            "Ema: parameters must be leaves of a floating dtype; got {} {}", parameter.dtype(), parameter.shape());
  }
  averages_ = copies();
}

void Ema::check_fit(const char* operation) const {
  if (swapped_)
    throw Error(
        fmt::format("{}: the parameters must hold their own values; got averages; end the scope of averaged() "
                    "first",
                    operation));
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    const core::Array& average = averages_[i];
    const bool same_shape = average.shape() == parameter.shape();
    if (same_shape && average.dtype() == parameter.dtype()) continue;
    const std::string text = fmt::format("{}: a parameter must be like its average, {} {}; got {} {}", operation,
                                         average.dtype(), average.shape(), parameter.dtype(), parameter.shape());
    if (same_shape) throw DtypeError(text);
    throw ShapeError(text);
  }
}

std::vector<core::Array> Ema::copies() const {
  std::vector<core::Array> list;
  for (const Tensor& parameter : parameters_) list.push_back(parameter.array().copy());
  return list;
}

void Ema::update() {
  const auto span = autograd::Span::outside("Ema", ".update");
  check_fit("Ema::update");
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const core::Array values = parameters_[i].array().contiguous();
    core::parallel_ranges(values.numel(), core::kernels::kStepElementsPerTask,
                          [&](std::int64_t begin, std::int64_t end) {
                            core::kernels::average_in_place({begin, end}, averages_[i], values, decay_);
                          });
  }
  ++updates_;
}

Ema::Scope::Scope(Ema& ema) : Scope(ema, (ema.check_fit("Ema::averaged"), ema.copies())) {
  NoGradGuard no_grad;  // from here on the destructor runs, whatever is thrown
  for (std::size_t i = 0; i < kept_.size(); ++i) core::copy_into(ema.parameters_[i].mutable_array(), ema.averages_[i]);
  ema.swapped_ = true;
}

Ema::Scope::~Scope() {
  NoGradGuard no_grad;
  for (std::size_t i = 0; i < kept_.size(); ++i) core::copy_into(ema_.parameters_[i].mutable_array(), kept_[i]);
  ema_.swapped_ = false;
}

StateDict Ema::state_dict() const {
  check_fit("Ema::state_dict");
  StateDict entries{{"updates", tensor(updates_)}};
  for (std::size_t i = 0; i < averages_.size(); ++i) entries.set(fmt::format("average.{}", i), Tensor(averages_[i]));
  return entries;
}

void Ema::load_state_dict(const StateDict& entries) {
  Reading reading("Ema", entries);
  const StateDict own = state_dict();
  for (const auto& [entry, tensor] : own) reading.get(entry, tensor);
  reading.finish();
  for (std::size_t i = 0; i < averages_.size(); ++i)
    core::copy_into(averages_[i], entries.at(fmt::format("average.{}", i)).array());
  updates_ = entries.at("updates").to_vector<std::int64_t>()[0];
}

}  // namespace tapegrad::optim
