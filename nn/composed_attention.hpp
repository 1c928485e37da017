// Attention as a composition of differentiable operations, with its weights in memory: the path for those who want
// them, and what the fused path is held to. Private to the library.
#pragma once
#include <tapegrad/nn/attention.hpp>

namespace tapegrad::nn {

/// The weights [..., L, S] = `shape`, for arguments that have been checked.
Tensor composed_weights(const Tensor& query, const Tensor& key, const AttentionOptions& options, const Shape& shape);
AttentionResult composed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionOptions& options, const Shape& shape);

/// W V. `guarded`: a value of weight zero counts for nothing even if it is not finite.
Tensor weighted_sum(const Tensor& weights, const Tensor& value, bool guarded);
/// Something is masked, and must not be seen through zero times NaN.
bool is_guarded(const AttentionOptions& options);

/// What scores are multiplied with: the option, or 1 / sqrt(width of a query).
double attention_scale(const Tensor& query, const AttentionOptions& options);
/// The mask as booleans of the scores' shape; undefined if there is none.
core::Array boolean_mask(const AttentionOptions& options, const Shape& shape);

}  // namespace tapegrad::nn
