// What a trained model attends to while it reads a text.
#pragma once
#include <string>

#include "model.hpp"

namespace toy_lm {

/// Each block's attention weights [heads, time, time] while the model reads `tokens`, at most a context of them.
tg::Tensors attention_maps(const Gpt& model, const std::vector<std::int64_t>& tokens);

/// What tells the heads apart while the model reads `tokens`: a line for each layer.
std::string head_report(const Gpt& model, const std::vector<std::int64_t>& tokens);

struct AttentionOptions {
  std::string from = "toy_lm-out";
  std::string prompt;
  std::string html;  // file to write, if not empty
};
/// Checks everything (BadInput), prints every head's map and writes the page.
void show_attention(const AttentionOptions& options);

}  // namespace toy_lm
