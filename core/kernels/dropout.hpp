// Dropout by a mask that is drawn anew wherever it is needed. Private to the library.
#pragma once
#include <tapegrad/core/array.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad::core::kernels {

/// How many counters of the generator the mask of `size` elements takes.
std::uint64_t dropout_counters(std::int64_t size);
/// x / (1 - p) where word i of the generator at `state` (i: row-major position of the element) keeps it, else 0.
Array dropout(const Array& x, double p, const RandomState& state);

}  // namespace tapegrad::core::kernels
