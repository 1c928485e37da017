#include <tapegrad/optim/clip.hpp>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <tapegrad/autograd/span.hpp>
#include <tapegrad/core/kernels/optimizer_steps.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::optim {
namespace {

/// Two leaves may have been handed one gradient: it may be changed in place only if this leaf (and the handle here)
/// have it.
bool is_owned_alone(const Tensor& gradient) {
  const core::Array& array = gradient.array();
  return gradient.body()->references.value() == 2 && gradient.is_leaf() && array.owns_alone() && array.is_contiguous();
}

/// The parameter's gradient after change(array), which writes in place.
template <class Change>
void change_gradient(const Tensor& parameter, const Change& change) {
  const Tensor gradient = parameter.grad();
  const bool in_place = is_owned_alone(gradient);
  const core::Array array = in_place ? gradient.mutable_array() : gradient.array().copy();
  change(array);
  if (!in_place) parameter.set_grad(Tensor(array));
}

}  // namespace

double clip_grad_norm(const Tensors& parameters, double max_norm, const ClipOptions& options) {
  const double p = options.norm_type;
  require(max_norm >= 0, "clip_grad_norm: max_norm must not be negative; got {}", max_norm);
  require(p > 0, "clip_grad_norm: norm_type must be positive; got {}", p);
  const auto span = autograd::Span::outside("clip_grad_norm");
  NoGradGuard no_grad;
  double total = 0;
  Tensors distinct;  // those that have a gradient, once each
  std::unordered_set<const autograd::TensorBody*> seen;
  for (const Tensor& parameter : parameters) {
    autograd::check_defined("clip_grad_norm", parameter);
    const Tensor gradient = parameter.grad();
    if (!gradient.defined() || !seen.insert(parameter.body()).second) continue;
    distinct.push_back(parameter);
    const double part = core::kernels::norm_power(gradient.array().contiguous(), p);
    total = std::isinf(p) && !std::isnan(total + part) ? std::max(part, total) : total + part;
  }
  const double norm = std::abs(std::isinf(p) ? total : std::pow(total, 1 / p));  // a NaN loses its sign
  require(!options.error_if_nonfinite || std::isfinite(norm),
          "clip_grad_norm: the norm must be finite; got {}; find the gradient that isn't", norm);
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (const Tensor& parameter : distinct)
    change_gradient(parameter, [factor](const core::Array& array) { core::kernels::scale_in_place(array, factor); });
  return norm;
}

void clip_grad_value(const Tensors& parameters, double value) {
  require(value >= 0, "clip_grad_value: value must not be negative; got {}", value);
  const auto span = autograd::Span::outside("clip_grad_value");
  NoGradGuard no_grad;
  for (const Tensor& parameter : parameters) autograd::check_defined("clip_grad_value", parameter);
  for (const Tensor& parameter : parameters)
    if (parameter.grad().defined())
      change_gradient(parameter, [value](const core::Array& array) { core::kernels::clamp_in_place(array, value); });
}

}  // namespace tapegrad::optim
