// GPT-2's published weights (Radford et al., 2019) in our model.
#pragma once
#include <string>

#include "model.hpp"

namespace toy_lm {

/// A model of the size that a safetensors file in the published layout has: wte, wpe, h.N.ln_1, h.N.attn.c_attn
/// (queries, keys and values in one), h.N.attn.c_proj, h.N.ln_2, h.N.mlp.c_fc, h.N.mlp.c_proj and ln_f, each with or
/// all without "transformer." in front. Matrices of linear layers are stored as [in, out] and are turned. The causal
/// masks, attn.bias and attn.masked_bias, are left out, and so is lm_head.weight if it equals wte.weight. The number of
/// heads is nowhere in the file: 0 takes heads of width 64, as all the published models have. BadInput lists all that
/// is missing, misshapen or unexpected, by the file's names.
Gpt load_gpt2(const std::string& path, std::int64_t heads = 0);

}  // namespace toy_lm
