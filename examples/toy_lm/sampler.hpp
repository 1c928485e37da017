// One token drawn from a model's logits.
#pragma once
#include <cstdint>
#include <vector>

namespace toy_lm {

struct SamplerOptions {
  /// Below 1 prefers likely tokens; 0 takes the likeliest (the first of equal ones).
  double temperature = 0.8;
  /// Draw from so many of the likeliest; 0, or more than there are: from all.
  std::int64_t top_k = 0;
};

/// `uniform` in [0, 1) decides. std::domain_error if a logit is NaN or +inf, or if none is above -inf.
std::int64_t sample(const std::vector<float>& logits, const SamplerOptions& options, double uniform);

}  // namespace toy_lm
