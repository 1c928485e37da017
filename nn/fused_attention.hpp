// Attention without weights in memory. Private to the library.
#pragma once
#include <tapegrad/nn/attention.hpp>

namespace tapegrad::nn {

/// The output for arguments that have been checked, without bias (and with dropout, without values that
/// have more leading dimensions than the scores); `shape` is that of the scores, [..., L,
/// S]. Memory grows with L and S, not with their product, forward and backward, unless gradients are themselves
/// recorded.
Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
                       const Shape& shape);

}  // namespace tapegrad::nn
