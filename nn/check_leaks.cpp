#include <tapegrad/nn/check_leaks.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/random.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {
namespace {

/// Something else for every element: for an id the next larger one of those there, for a number a random one.
Tensor replacement(const std::string& check, const Tensor& inputs) {
  if (is_floating(inputs.dtype())) return randn(inputs.shape(), inputs.dtype());
  require<DtypeError>(inputs.dtype() == int64, "{}: the inputs must be int64 or floating; got {}", check,
                      inputs.dtype());
  std::vector<std::int64_t> ids = inputs.to_vector<std::int64_t>(), known = ids;
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  require(known.size() >= 2, "{}: there must be two different ids, so that one can take another's place; got {}", check,
          inputs);
  for (std::int64_t& id : ids) {
    const auto next = std::upper_bound(known.begin(), known.end(), id);
    id = next == known.end() ? known.front() : *next;
  }
  return from_vector(ids, inputs.shape());
}

/// The largest |a - b| over all elements; equal infinities and two NaN are no difference, one NaN is an infinite one.
double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.to_vector<double>(), right = b.to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]))) continue;
    const double difference = std::abs(left[i] - right[i]);
    largest = std::max(largest, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
  return largest;
}

/// Changes the inputs at each place of `axis` in turn and looks at the outputs of which `must_stay(changed, place)`.
template <class MustStay>
LeakReport find_leak(const char* check, const TensorFunction& model, const Tensor& inputs, double tolerance, int axis,
                     const MustStay& must_stay) {
  require<ShapeError>(inputs.rank() > axis && inputs.size(axis) >= 2,
                      "{}: the inputs must be {}, with at least two {}; got {}", check,
                      axis ? "[N, T, ...]" : "[N, ...]", axis ? "positions" : "items", inputs.shape());
  const NoGradGuard no_grad;
  const RandomStateGuard random;
  const auto call = [&](const Tensor& x) {
    random.again();
    Tensor y = model(x);
    require<ShapeError>(y.rank() > axis && y.size(0) == inputs.size(0) && y.size(axis) == inputs.size(axis),
                        "{}: the model must give {} for inputs of shape {}; got {}", check,
                        axis ? "[N, T, ...]" : "[N, ...]", inputs.shape(), y.shape());
    return y;
  };
  const Tensor other = replacement(check, inputs);
  const Tensor expected = call(inputs);
  LeakReport report{.check = check};
  const std::int64_t size = inputs.size(axis);
  for (std::int64_t at = 0; at < size; ++at) {
    const Tensor output =
        call(cat({inputs.slice(axis, 0, at), other.slice(axis, at, at + 1), inputs.slice(axis, at + 1, size)}, axis));
    ++report.changed_in_turn;
    for (std::int64_t place = 0; place < size; ++place) {
      if (!must_stay(at, place)) continue;
      const double moved = largest_difference(expected.select(axis, place), output.select(axis, place));
      if (moved > tolerance) {
        report.leaked = true;
        report.changed = at;
        report.moved = place;
        report.size = moved;
        return report;
      }
    }
  }
  return report;
}

}  // namespace

LeakReport check_causal(const TensorFunction& model, const Tensor& inputs, double tolerance) {
  return find_leak("check_causal", model, inputs, tolerance, 1, std::greater<std::int64_t>());
}

LeakReport check_batch_independence(const TensorFunction& model, const Tensor& inputs, double tolerance) {
  return find_leak("check_batch_independence", model, inputs, tolerance, 0, std::not_equal_to<std::int64_t>());
}

std::string LeakReport::to_string() const {
  const bool causal = check == "check_causal";
  const char* place = causal ? "position" : "item";
  if (!leaked)
    return fmt::format("{}: no leak: {} {}s were changed in turn, and no {} moved", check, changed_in_turn, place,
                       causal ? "earlier output" : "other item");
  return fmt::format("{}: the output of {} {} depends on the input of {} {}: it moved by up to {:.3g}; {}", check,
                     place, moved, place, changed, size,
                     causal ? "is a mask missing or shifted, or are positions mixed by a mean or a norm?"
                            : "are items mixed by a mean or a norm over the batch, or by a reshape?");
}

}  // namespace tapegrad::nn
