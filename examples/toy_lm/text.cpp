#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bad_input.hpp"

namespace toy_lm {
namespace {

/// The code point at `position`, which moves behind it; false if the bytes there are not UTF-8.
bool next_code_point(std::string_view bytes, std::size_t& position, char32_t& code_point) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = byte(position);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || position + length > bytes.size()) return false;
  code_point = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(position + i) & 0xC0) != 0x80) return false;
    code_point = code_point << 6 | (byte(position + i) & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code_point < kSmallest[length] || code_point > 0x10FFFF) return false;
  if (code_point >= 0xD800 && code_point <= 0xDFFF) return false;
  position += length;
  return true;
}

std::string read_file(const std::string& path) {
  if (std::filesystem::is_directory(path))
    throw BadInput(fmt::format("text '{}': must be a file; it is a folder", path));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadInput(fmt::format("text '{}': must be readable; {}", path, std::strerror(errno)));
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw BadInput(fmt::format("text '{}': could not be read to its end", path));
  if (bytes.empty()) throw BadInput(fmt::format("text '{}': must not be empty", path));
  return bytes;
}

}  // namespace

std::u32string decode_utf8(std::string_view bytes, const std::string& what) {
  std::u32string text;
  text.reserve(bytes.size());
  for (std::size_t position = 0; position < bytes.size();) {
    char32_t code_point = 0;
    if (!next_code_point(bytes, position, code_point))
      throw BadInput(fmt::format("{}: must be UTF-8; the byte {:#04x} at offset {} is not", what,
                                 static_cast<unsigned char>(bytes[position]), position));
    text += code_point;
  }
  return text;
}

std::string encode_utf8(std::u32string_view text) {
  std::string bytes;
  for (char32_t c : text) {
    if (c < 0x80) {
      bytes += static_cast<char>(c);
      continue;
    }
    const int following = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
    bytes += static_cast<char>(kLead[following] | c >> (6 * following));
    for (int i = following - 1; i >= 0; --i) bytes += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
  }
  return bytes;
}

std::u32string read_text_files(const std::vector<std::string>& paths) {
  std::u32string text;
  for (const std::string& path : paths) text += decode_utf8(read_file(path), fmt::format("text '{}'", path));
  return text;
}

std::string shown(char32_t character) {
  if (character >= 0x20 && character < 0x7F) return fmt::format("'{}'", static_cast<char>(character));
  return fmt::format("U+{:04X}", static_cast<std::uint32_t>(character));
}

Vocabulary::Vocabulary(const std::u32string& text) : characters_(text) {
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
  for (char32_t character : characters_) tokens_.emplace(character, static_cast<std::int64_t>(tokens_.size()));
}

std::vector<std::int64_t> Vocabulary::encode(const std::u32string& text, const std::string& what) const {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (char32_t character : text) {
    const auto found = tokens_.find(character);
    if (found == tokens_.end())
      throw BadInput(
          fmt::format("{}: the character {} at position {} is not among the {} characters that the model knows", what,
                      shown(character), tokens.size(), size()));
    tokens.push_back(found->second);
  }
  return tokens;
}

std::string Vocabulary::decode(std::int64_t token) const {
  return encode_utf8({&characters_.at(static_cast<std::size_t>(token)), 1});
}

Split split_tokens(std::vector<std::int64_t> tokens, std::int64_t context) {
  const auto cut = static_cast<std::int64_t>(0.9 * static_cast<double>(tokens.size()));
  const std::int64_t rest = static_cast<std::int64_t>(tokens.size()) - cut;
  if (std::min(cut, rest) <= context)
    throw BadInput(
        fmt::format("text: must have at least {:.0f} characters for a context of {} (a tenth is for validation); "
                    "got {}; give more text or a smaller --context",
                    10 * (static_cast<double>(context) + 1), context, tokens.size()));
  Split split;
  split.validation.assign(tokens.begin() + cut, tokens.end());
  tokens.resize(static_cast<std::size_t>(cut));
  split.training = std::move(tokens);
  return split;
}

}  // namespace toy_lm
