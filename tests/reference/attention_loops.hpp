// Attention by explicit loops in double precision: the oracle of the attention tests.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <tapegrad/tapegrad.hpp>

namespace attention_loops {

struct Result {
  std::vector<double> output;   // [items, L, V]
  std::vector<double> weights;  // [items, L, S]
};

using Allowed = std::function<bool(std::int64_t item, std::int64_t query, std::int64_t key)>;

/// query [..., L, E], key [..., S, E], value [..., S, V] with equal leading dimensions, taken as one list of items.
inline Result attend(const tapegrad::Tensor& query, const tapegrad::Tensor& key, const tapegrad::Tensor& value,
                     const Allowed& allowed) {
  const std::int64_t queries = query.size(-2), keys = key.size(-2), width = query.size(-1), out = value.size(-1);
  const std::int64_t items = query.numel() / (queries * width);
  const auto q = query.to_vector<double>(), k = key.to_vector<double>(), v = value.to_vector<double>();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  Result result{std::vector<double>(at(items * queries * out)), std::vector<double>(at(items * queries * keys))};
  for (std::int64_t n = 0; n < items; ++n)
    for (std::int64_t i = 0; i < queries; ++i) {
      double* weights = &result.weights[at((n * queries + i) * keys)];
      double largest = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        if (!allowed(n, i, j)) continue;
        for (std::int64_t d = 0; d < width; ++d)
          weights[j] += q[at((n * queries + i) * width + d)] * k[at((n * keys + j) * width + d)];
        weights[j] /= std::sqrt(static_cast<double>(width));
        largest = std::max(largest, weights[j]);
      }
      for (std::int64_t j = 0; j < keys; ++j) {
        weights[j] = allowed(n, i, j) ? std::exp(weights[j] - largest) : 0.0;
        total += weights[j];
      }
      for (std::int64_t j = 0; j < keys && total > 0; ++j) {
        weights[j] /= total;
        for (std::int64_t d = 0; d < out; ++d)
          result.output[at((n * queries + i) * out + d)] += weights[j] * v[at((n * keys + j) * out + d)];
      }
    }
  return result;
}

}  // namespace attention_loops
