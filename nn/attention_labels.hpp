// Tokens as labels of a map of attention. Private to the library.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tapegrad::nn {

/// Spaces, line ends and control characters as signs that can be seen, and that no terminal obeys.
std::string visible_token(const std::string& token);
/// Columns that a terminal gives to UTF-8 text.
std::int64_t display_width(const std::string& text);
/// ShapeError unless there is one token for each of the longer side of [queries, keys].
void check_tokens(const char* operation, const std::vector<std::string>& tokens, std::int64_t queries,
                  std::int64_t keys);

}  // namespace tapegrad::nn
