// Dropout by a mask that is drawn anew wherever it is needed. Private to the library.
#pragma once
#include <algorithm>
#include <cmath>

#include <tapegrad/core/array.hpp>
#include <tapegrad/core/philox.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad::core::kernels {

/// Words below it drop their element.
inline std::uint64_t dropout_threshold(double p) { return static_cast<std::uint64_t>(std::llround(p * 0x1p32)); }
template <class T>
T dropout_scale(double p) {
  return p < 1.0 ? static_cast<T>(1.0 / (1.0 - p)) : T(0);
}

/// What dropout multiplies elements first ... first + count of an array with: 0 or 1 / (1 - p).
template <class T>
void dropout_factors(T* factors, std::int64_t first, std::int64_t count, double p, const RandomState& state) {
  constexpr std::int64_t kWords = 4 * PhiloxBlock::kCounters;
  const std::uint64_t threshold = dropout_threshold(p);
  const T scale = dropout_scale<T>(p);
  for (std::int64_t begin = first / 4 * 4; begin < first + count; begin += kWords) {
    const PhiloxBlock block(state.seed, state.position + static_cast<std::uint64_t>(begin / 4));
    const std::int64_t end = std::min(begin + kWords, first + count);
    for (std::int64_t i = std::max(begin, first); i < end; ++i)
      factors[i - first] = block.words[i % 4][(i - begin) / 4] < threshold ? T(0) : scale;
  }
}

/// How many counters of the generator the mask of `size` elements takes.
std::uint64_t dropout_counters(std::int64_t size);
/// x / (1 - p) where word i of the generator at `state` (i: row-major position of the element) keeps it, else 0.
Array dropout(const Array& x, double p, const RandomState& state);

}  // namespace tapegrad::core::kernels
