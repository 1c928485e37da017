// Attention without weights in memory. Private to the library.
#pragma once
#include <tapegrad/nn/attention.hpp>

namespace tapegrad::nn {

/// The output of a call (with dropout, one whose values have no more leading dimensions than the scores). Memory grows
/// with L and S, not with their product, forward and backward, unless gradients are themselves recorded; the gradient
/// of the bias takes what the bias takes.
Tensor fused_attention(const std::shared_ptr<const AttentionCall>& given);

}  // namespace tapegrad::nn
