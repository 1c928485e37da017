// Attention without weights in memory: tiles of queries and keys, a running softmax, and gradients by recomputation
// (Milakov and Gimelshein, 2018; Dao et al., 2022). Private to the library.
#pragma once
#include <tapegrad/core/array.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad::core::kernels {

/// Floating arrays of one dtype: query [..., L, E], key [..., S, E], value [..., S, V], all of the same leading
/// dimensions (strides may be 0).
struct AttentionInputs {
  Array query, key, value;
  /// Undefined, or boolean [..., L, S] (strides may be 0): what a query may attend to.
  Array mask;
  /// Query i sees the keys up to i + S - L.
  bool causal = false;
  double scale = 1.0;
  /// Weights are dropped as kernels::dropout drops the elements of an array [..., L, S] of them.
  double dropout = 0.0;
  RandomState random = {};
};

struct AttentionOutput {
  /// [..., L, V], and in memory in the order that query has.
  Array output;
  /// [..., L, 2]: the largest score of each row, and 1 / sum(exp(score - largest)), 0 for a row that sees nothing.
  /// Their logarithm in one number would lose the digits of the sum to a large score.
  Array stats;
};
/// dropout(softmax(scale Q K^T)) V among the visible pairs; a row that sees nothing is 0.
AttentionOutput attention(const AttentionInputs& inputs);

struct AttentionGradients {
  Array query, key, value;
};
/// Which of them are wanted; the others stay undefined.
struct AttentionWanted {
  bool query = true, key = true, value = true;
};
/// Of the shapes of the inputs, leading dimensions included.
AttentionGradients attention_backward(const AttentionInputs& inputs, const AttentionOutput& result,
                                      const Array& gradient, AttentionWanted wanted);

}  // namespace tapegrad::core::kernels
