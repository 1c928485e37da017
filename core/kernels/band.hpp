// Ranges of indices, and the keys that a query sees in a band along the diagonal of the scores. Private to the library.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tapegrad::core::kernels {

/// Indices begin ... end - 1; none if begin >= end.
struct Range {
  std::int64_t begin = 0, end = 0;

  bool empty() const { return begin >= end; }
  Range within(Range other) const { return {std::max(begin, other.begin), std::min(end, other.end)}; }
  /// The smallest range that holds both.
  Range joined(Range other) const {
    if (empty() || other.empty()) return empty() ? other : *this;
    return {std::min(begin, other.begin), std::max(end, other.end)};
  }
};

/// Query i of L sees key j of S if lower <= j - (i + S - L) <= upper: aligned bottom right, so that the last query
/// stands at the last key.
struct Band {
  static constexpr std::int64_t kFar = std::int64_t{1} << 60;  // further than any length
  std::int64_t lower = -kFar, upper = kFar;

  bool hides() const { return lower > -kFar || upper < kFar; }
  /// The keys that some of `some` (not none) of the queries see.
  Range keys_of(Range some, std::int64_t queries, std::int64_t keys) const {
    const std::int64_t shift = keys - queries;
    return {std::clamp<std::int64_t>(some.begin + shift + lower, 0, keys),
            std::clamp<std::int64_t>(some.end + shift + upper, 0, keys)};
  }
};

}  // namespace tapegrad::core::kernels
