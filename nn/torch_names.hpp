// PyTorch's names of attention's parameters, and ours.
#pragma once
#include <tapegrad/autograd/state_dict.hpp>

namespace tapegrad::nn {

/// The state dict of a model with torch.nn.MultiheadAttention layers, at any depth, under the names of
/// MultiHeadAttention: in_proj_weight [3E, E] (or q_proj_weight, k_proj_weight and v_proj_weight) and in_proj_bias
/// become q_proj.weight, ..., v_proj.bias, and all else stays as it is. The parts share memory with what they are parts
/// of. ValueError or ShapeError names an entry that is incomplete, misshapen, or has no counterpart (bias_k, bias_v).
StateDict from_torch_names(const StateDict& entries);
/// The way back: packed if queries, keys and values have one width. ValueError for what PyTorch's layer lacks: grouped
/// heads, qk_norm.
StateDict to_torch_names(const StateDict& entries);

}  // namespace tapegrad::nn
