// Masks of attention: nonzero allows, zero blocks, whatever the dtype. These are boolean.
#pragma once
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::nn {

/// [length, length], true on and below the diagonal: a position attends to itself and to those before it.
Tensor create_causal_mask(std::int64_t length);
/// [lengths.size(), max_length, max_length]: in item i the first lengths[i] positions attend to one another, and
/// nothing else is allowed. ValueError names a length outside [0, max_length].
Tensor create_padding_mask(const std::vector<std::int64_t>& lengths, std::int64_t max_length);
/// [length, length], all true.
Tensor create_bidirectional_mask(std::int64_t length);

}  // namespace tapegrad::nn
