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
  /// [..., L]: log(sum(exp(scores))) of each row, infinity for a row that sees nothing.
  Array log_sum_exp;
};
/// dropout(softmax(scale Q K^T)) V among the visible pairs; a row that sees nothing is 0.
AttentionOutput attention(const AttentionInputs& inputs);

struct AttentionGradients {
  Array query, key, value;
};
/// Of the shapes of the inputs, leading dimensions included. `query` and `keys` tell which are wanted: that of query,
/// and those of key and value; the others stay undefined.
AttentionGradients attention_backward(const AttentionInputs& inputs, const AttentionOutput& result,
                                      const Array& gradient, bool query, bool keys);

}  // namespace tapegrad::core::kernels
