// Attention without weights in memory: tiles of queries and keys, a running softmax, and gradients by recomputation
// (Milakov and Gimelshein, 2018; Dao et al., 2022). Private to the library.
#pragma once
#include <tapegrad/core/array.hpp>
#include <tapegrad/core/kernels/band.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad::core::kernels {

/// Floating arrays of one dtype: query [..., L, E], key [..., S, E], value [..., S, V], all of the same leading
/// dimensions (strides may be 0).
struct AttentionInputs {
  Array query, key, value;
  /// Undefined, or of that dtype and broadcasting to [..., L, S], with two dimensions at least: what is added to the
  /// scores. -inf hides.
  Array bias;
  /// Undefined, or boolean [..., L, S] (strides may be 0): what a query may attend to.
  Array mask;
  /// Undefined, or int64 of the leading dimensions (strides may be 0): how many keys there are.
  Array lengths;
  /// What is outside is hidden, and tiles there are not computed.
  Band band = {};
  double scale = 1.0;
  /// Weights are dropped as kernels::dropout drops the elements of an array [..., L, S] of them.
  double dropout = 0.0;
  RandomState random = {};

  /// Something may be hidden: a weight of zero then counts for nothing, whatever it is multiplied with.
  bool hides() const { return band.hides() || bias.defined() || mask.defined() || lengths.defined(); }
};

struct AttentionOutput {
  /// [..., L, V], and in memory in the order that query has.
  Array output;
  /// [..., L, 2]: the largest score of each row, and 1 / sum(exp(score - largest)), 0 for a row that sees nothing.
  /// Their logarithm in one number would lose the digits of the sum to a large score.
  Array stats;
};
/// dropout(softmax(scale Q K^T + bias)) V among the visible pairs; a row that sees nothing is 0.
AttentionOutput attention(const AttentionInputs& inputs);

struct AttentionGradients {
  Array query, key, value, bias;
};
/// Which of them are wanted; the others stay undefined.
struct AttentionWanted {
  bool query = true, key = true, value = true, bias = false;
};
/// Of the shapes of the inputs, leading dimensions included; that of the bias takes no more memory than the bias.
AttentionGradients attention_backward(const AttentionInputs& inputs, const AttentionOutput& result,
                                      const Array& gradient, AttentionWanted wanted);

}  // namespace tapegrad::core::kernels
