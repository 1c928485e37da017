#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

namespace toy_lm {
namespace {

void check(const std::vector<float>& logits) {
  bool any = false;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (std::isnan(logits[token]) || logits[token] == INFINITY)
      throw std::domain_error("sample: logits must be numbers below +inf; got " + std::to_string(logits[token]) +
                              " for token " + std::to_string(token) + "; the model is broken");
    any = any || logits[token] != -INFINITY;
  }
  if (!any)
    throw std::domain_error("sample: a logit must be above -inf; none of " + std::to_string(logits.size()) + " is");
}

}  // namespace

std::int64_t sample(const std::vector<float>& logits, const SamplerOptions& options, double uniform) {
  check(logits);
  const auto size = static_cast<std::int64_t>(logits.size());
  if (options.temperature == 0) return std::max_element(logits.begin(), logits.end()) - logits.begin();
  std::vector<std::int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const std::int64_t kept = options.top_k > 0 ? std::min(options.top_k, size) : size;
  std::partial_sort(tokens.begin(), tokens.begin() + kept, tokens.end(), [&](std::int64_t a, std::int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  std::vector<double> weights;
  for (std::int64_t i = 0; i < kept; ++i)
    weights.push_back(std::exp((double{logits[tokens[i]]} - double{logits[tokens[0]]}) / options.temperature));
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::int64_t choice = 0;
  while (choice + 1 < kept && left >= weights[choice]) left -= weights[choice++];
  return weights[choice] > 0 ? tokens[choice] : tokens[0];
}

}  // namespace toy_lm
