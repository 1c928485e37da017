// Draws from given probabilities.
#include <algorithm>
#include <vector>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/autograd/sorting.hpp>

namespace tapegrad {

Tensor bernoulli(const Tensor& p) {
  autograd::check_floating("bernoulli", p);
  const Tensor outside = logical_not(logical_and(ge(p, 0), le(p, 1)));
  if (any(outside).item() != 0) {
    const std::int64_t at = static_cast<std::int64_t>(argmax(outside).item());
    throw ValueError("bernoulli: probabilities must be in [0, 1]; got " +
                     std::to_string(flatten(p.detach()).select(0, at).item()) + " at element " + std::to_string(at) +
                     " of shape " + p.shape().to_string());
  }
  return to(lt(rand_like(p), p), p.dtype());
}

namespace {

/// The index whose part of the rising sums each uniform number falls into. One of weight 0 has no part, and the last
/// sum is above every number of [0, 1) times itself.
Tensor draw_again_and_again(const Tensor& weights, std::int64_t count) {
  const std::int64_t rows = weights.size(0), size = weights.size(1);
  const std::vector<double> sums = cumsum(weights, 1).to_vector<double>();
  const std::vector<double> uniform = rand({rows, count}, float64).to_vector<double>();
  const Array indices({rows, count}, int64);
  for (std::int64_t i = 0; i < rows * count; ++i) {
    const auto first = sums.begin() + i / count * size, last = first + size;
    indices.data<std::int64_t>()[i] =
        std::upper_bound(first, last, uniform[static_cast<std::size_t>(i)] * last[-1]) - first;
  }
  return Tensor(indices);
}

/// A race in which index i arrives after an exponential time of mean 1 / weight: the first ones are drawn in proportion
/// to what is left (Efraimidis and Spirakis, 2006).
Tensor draw_once(const Tensor& weights, const Tensor& none, std::int64_t count) {
  const Tensor time = abs(log1p(neg(rand_like(weights))));
  return topk(where(none, -1, weights / time), count, 1).indices;
}

void check_weights(const Tensor& weights, std::int64_t count, bool replacement) {
  autograd::check_floating("multinomial", weights);
  if (weights.rank() < 1 || weights.rank() > 2)
    throw ShapeError("multinomial: the weights must have rank 1 or 2; got shape " + weights.shape().to_string());
  if (count < 0) throw ValueError("multinomial: the count must not be negative; got " + std::to_string(count));
  if (all(logical_and(isfinite(weights), ge(weights, 0))).item() == 0)
    throw ValueError("multinomial: weights must be finite and not negative; got " + weights.detach().to_string());
  const Tensor choices = sum(gt(weights, 0), -1);
  const std::int64_t needed = replacement ? std::min<std::int64_t>(count, 1) : count;
  if (all(ge(choices, needed)).item() == 0)
    throw ValueError("multinomial: each row must have " + std::to_string(needed) +
                     " or more weights above 0; got a row with " +
                     std::to_string(static_cast<std::int64_t>(min(choices).item())) +
                     (replacement ? "" : "; draw fewer, or with replacement"));
}

}  // namespace

Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement) {
  const autograd::Span span("multinomial");
  check_weights(weights, count, replacement);
  if (weights.rank() == 1) return multinomial(unsqueeze(weights.detach(), 0), count, replacement).squeeze(0);
  // Scaled by the largest, so that no sum overflows and no time is too long to be told from another.
  Tensor scaled = to(weights.detach(), float64);
  if (scaled.size(1) > 0) scaled = scaled / clamp_min(max(scaled, 1, true), 1e-300);
  return replacement ? draw_again_and_again(scaled, count)
                     : draw_once(scaled, eq(weights, 0), count);  // a tiny weight may be 0 when scaled
}

}  // namespace tapegrad
