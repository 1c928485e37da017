// Attention by explicit loops in double precision: the oracle of the attention tests.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include <tapegrad/tapegrad.hpp>

namespace attention_loops {

struct Result {
  std::vector<double> output;   // [items, L, V]
  std::vector<double> weights;  // [items, L, S]
};

/// What a query sees, and how: every rule must allow a pair.
struct Rules {
  static constexpr std::int64_t kFar = 1'000'000;
  std::function<bool(std::int64_t item, std::int64_t query, std::int64_t key)> allowed = [](auto, auto, auto) {
    return true;
  };
  std::function<double(std::int64_t item, std::int64_t query, std::int64_t key)> bias = [](auto, auto, auto) {
    return 0.0;
  };
  bool is_causal = false;
  std::int64_t left = kFar, right = kFar;      // of the window
  std::vector<std::int64_t> key_lengths = {};  // of each item; all keys if empty
  std::optional<double> scale = {};
  std::int64_t group = 1;  // so many items of the query read one of the key

  bool sees(std::int64_t item, std::int64_t query, std::int64_t key, std::int64_t last_offset) const {
    const std::int64_t ahead = key - (query + last_offset);
    if (is_causal && ahead > 0) return false;
    if (ahead < -left || ahead > right) return false;
    if (!key_lengths.empty() && key >= key_lengths[static_cast<std::size_t>(item)]) return false;
    return allowed(item, query, key);
  }
};

/// query [..., L, E], key [..., S, E], value [..., S, V] with equal leading dimensions (but for groups), taken as one
/// list of items.
inline Result attend(const tapegrad::Tensor& query, const tapegrad::Tensor& key, const tapegrad::Tensor& value,
                     const Rules& rules) {
  const std::int64_t queries = query.size(-2), keys = key.size(-2), width = query.size(-1), out = value.size(-1);
  const std::int64_t items = query.numel() / (queries * width);
  const double scale = rules.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
  const auto q = query.to_vector<double>(), k = key.to_vector<double>(), v = value.to_vector<double>();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  Result result{std::vector<double>(at(items * queries * out)), std::vector<double>(at(items * queries * keys))};
  for (std::int64_t n = 0; n < items; ++n)
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t m = n / rules.group;  // the key's item
      const auto sees = [&](std::int64_t j) { return rules.sees(n, i, j, keys - queries); };
      double* weights = &result.weights[at((n * queries + i) * keys)];
      double largest = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        if (!sees(j)) continue;
        for (std::int64_t d = 0; d < width; ++d)
          weights[j] += q[at((n * queries + i) * width + d)] * k[at((m * keys + j) * width + d)];
        weights[j] = weights[j] * scale + rules.bias(n, i, j);
        largest = std::max(largest, weights[j]);
      }
      for (std::int64_t j = 0; j < keys; ++j) {
        weights[j] = sees(j) ? std::exp(weights[j] - largest) : 0.0;
        total += weights[j];
      }
      for (std::int64_t j = 0; j < keys && total > 0; ++j) {
        weights[j] /= total;
        for (std::int64_t d = 0; d < out; ++d)
          result.output[at((n * queries + i) * out + d)] += weights[j] * v[at((m * keys + j) * out + d)];
      }
    }
  return result;
}

}  // namespace attention_loops
