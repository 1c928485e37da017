// Attention whose cost grows with the length alone (Katharopoulos et al., 2020).
#pragma once
#include <functional>

#include <tapegrad/autograd/operand.hpp>

namespace tapegrad::nn {

struct LinearAttentionOptions {
  /// Features of queries and keys, [..., length, width] -> [..., length, features]; elu(x) + 1 if not given. Weights
  /// are products of features, so these should not be negative.
  std::function<Tensor(const Tensor&)> feature_map = {};
  /// Query i sees the keys up to i; queries and keys must be equally many.
  bool is_causal = false;
};

/// query [..., L, E], key [..., S, E], value [..., S, V] -> [..., L, V]:
///
///     sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j)
///
/// with the sums over j taken before the products with phi(q_i): time and memory grow with L and S, not with L S. This
/// is another model than scaled_dot_product_attention, not an approximation of it: weights trained with one don't fit
/// the other, and there is no mask. Leading dimensions broadcast. A query whose weights sum to zero gets zeros, and
/// passes zero gradients.
Tensor linear_attention(const Operand& query, const Tensor& key, const Tensor& value,
                        const LinearAttentionOptions& options = {});

}  // namespace tapegrad::nn
