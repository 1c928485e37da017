// The operations on a transformer's path that have fused kernels, forward and backward. Their closures fall back to
// composed formulas when gradients of gradients are asked for.
#pragma once
#include <optional>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// exp(x) / sum(exp(x)) along `axis`, without overflow; a slice of -inf alone gives NaN, as in PyTorch.
Tensor softmax(const Operand& x, std::int64_t axis);
/// log(softmax(x)).
Tensor log_softmax(const Operand& x, std::int64_t axis);
/// Layer normalisation (Ba et al., 2016) over the last `normalized_rank` dimensions: (x - mean) / sqrt(var + eps) with
/// the biased variance, times `weight`, plus `bias` (both of the shape of those dimensions, and either undefined).
Tensor layer_norm(const Operand& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5,
                  int normalized_rank = 1);
/// Root mean square normalisation (Zhang and Sennrich, 2019) over the last `normalized_rank` dimensions:
/// x / sqrt(mean(x^2) + eps), times `weight` (of the shape of those dimensions, or undefined). Without eps: the
/// distance from 1 to the next number of x's dtype, as in PyTorch.
Tensor rms_norm(const Operand& x, const Tensor& weight, std::optional<double> eps = {}, int normalized_rank = 1);

/// Zeroes elements with probability p and multiplies the others by 1 / (1 - p); x itself if not `training` or p is 0.
Tensor dropout(const Operand& x, double p, bool training = true);
/// Rows of `weight` [rows, width] at `indices` (int64, any shape): indices.shape + [width]. Repeated rows add up in the
/// gradient; row `padding_index` gets none. IndexError names the value, its position and the number of rows.
Tensor embedding(const Operand& weight, const Operand& indices, std::optional<std::int64_t> padding_index = {});
/// x weight^T + bias over the last dimension: x [..., in], weight [out, in], bias [out] or undefined.
Tensor linear(const Operand& x, const Tensor& weight, const Tensor& bias = {});
/// linear(gelu(x), weight, bias), which keeps x alone for its gradient and computes gelu(x) again in the sweep, in the
/// pass that takes its derivative: half of the memory in as much time.
Tensor gelu_linear(const Operand& x, const Tensor& weight, const Tensor& bias = {});
/// -log softmax(logits)[target], for each row of logits [rows, classes] and target [rows] (int64); 0 where the target
/// is `ignore_index`. IndexError names row, value and number of classes.
Tensor cross_entropy_rows(const Operand& logits, const Operand& targets, std::int64_t ignore_index = -100);

}  // namespace tapegrad
