// The two paths of attention, and what they share. Private to the library.
#pragma once
#include <tapegrad/core/kernels/band.hpp>
#include <tapegrad/nn/attention.hpp>

namespace tapegrad::nn {

/// One call, checked: all that both paths compute from. Grouped heads are a dimension of their own by now.
struct AttentionCall {
  Tensor query, key, value;  // [..., L, E], [..., S, E], [..., S, V]
  Tensor bias, mask;         // broadcast to the scores, with their last two dimensions; or undefined
  Tensor key_lengths;        // broadcasts to the scores' leading dimensions; or undefined
  core::kernels::Band band;
  double scale, dropout;
  Shape scores;  // [..., L, S]
  Shape items;   // the leading dimensions as they were before heads were grouped

  /// Something is masked, and must not be seen through zero times NaN.
  bool guarded() const { return band.hides() || mask.defined() || key_lengths.defined() || bias.defined(); }
};

/// All but the last two dimensions.
inline Shape leading(const Shape& shape) { return shape.sub(0, shape.rank() - 2); }
inline Shape leading(const Tensor& x) { return leading(x.shape()); }
/// ShapeError or DtypeError, `operation` in front, unless these are [..., length, width] of one floating dtype, with a
/// value for each key.
void check_operands(const char* operation, const Tensor& query, const Tensor& key, const Tensor& value);

// A composition of differentiable operations, with its weights in memory: the path for those who want them, and what
// the fused path is held to.
/// The weights [..., L, S].
Tensor composed_weights(const AttentionCall& call);
/// Output, and weights before dropout.
AttentionResult composed_attention(const AttentionCall& call);

/// The output of a call (with dropout, one whose values have no more leading dimensions than the scores). Memory grows
/// with L and S, not with their product, forward and backward, unless gradients are themselves recorded; the gradient
/// of the bias takes what the bias takes.
Tensor fused_attention(const std::shared_ptr<const AttentionCall>& given);

// What the gradients of attention are made of, to any order. `guarded`: where one factor is zero the other counts for
// nothing, even if it is not finite.
/// A B^T; in its gradient a slope of zero hides.
Tensor row_products(const Tensor& a, const Tensor& b, bool guarded);
/// W V; a weight of zero hides.
Tensor weighted_sum(const Tensor& weights, const Tensor& value, bool guarded);
/// W (g - sum(W g)), exactly 0 where the weight is: the gradient of the softmax.
Tensor softmax_slopes(const Tensor& weights, const Tensor& g);

}  // namespace tapegrad::nn
