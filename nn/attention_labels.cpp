#include <tapegrad/nn/attention_labels.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {

std::string visible_token(const std::string& token) {
  std::string text;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const char c = token[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ')
      text += "␣";
    else if (c == '\n')
      text += "↵";
    else if (byte < 0x20)  // U+2400 and the following are pictures of control characters
      text += {'\xe2', '\x90', static_cast<char>(0x80 + byte)};
    else if (byte == 0x7f)
      text += "␡";
    else if (byte == 0xc2 && i + 1 < token.size() && static_cast<unsigned char>(token[i + 1]) < 0xa0 && ++i)
      text += "�";  // U+0080 to U+009F are control characters too
    else
      text += c;
  }
  return text;
}

std::int64_t display_width(const std::string& text) {
  // fmt knows the widths of characters and pads accordingly.
  const std::size_t padded = text.size() + 1;
  return static_cast<std::int64_t>(padded + text.size() - fmt::formatted_size("{:<{}}", text, padded));
}

void check_tokens(const char* operation, const std::vector<std::string>& tokens, std::int64_t queries,
                  std::int64_t keys) {
  const std::int64_t longer = std::max(queries, keys);
  require<ShapeError>(static_cast<std::int64_t>(tokens.size()) == longer,
                      "{}: tokens must name {} positions, one each, for {} queries and {} keys; got {}", operation,
                      longer, queries, keys, tokens.size());
}

}  // namespace tapegrad::nn
