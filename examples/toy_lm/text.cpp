#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <tapegrad/core/error.hpp>

#include "bad_input.hpp"

namespace toy_lm {
namespace {

std::string read_file(const std::string& path) {
  std::error_code ignored;  // what can't be looked at can't be opened
  if (std::filesystem::is_directory(path, ignored))
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
  try {
    return tapegrad::data::decode_utf8(bytes, what);
  } catch (const tapegrad::ValueError& error) {
    throw BadInput(error.what());
  }
}

std::u32string read_text_files(const std::vector<std::string>& paths) {
  std::u32string text;
  for (const std::string& path : paths) text += decode_utf8(read_file(path), fmt::format("text '{}'", path));
  return text;
}

Vocabulary::Vocabulary(const std::u32string& text) : characters_(text) {
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
  for (char32_t character : characters_) tokens_.emplace(character, static_cast<std::int64_t>(tokens_.size()));
}

std::vector<std::int64_t> Vocabulary::encode(const std::u32string& text, const std::string& what) const {
  if (pairs_) return pairs_->encode(encode_utf8(text));
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
  if (pairs_) return pairs_->decode(token);
  return encode_utf8({&characters_.at(static_cast<std::size_t>(token)), 1});
}

Split split_tokens(std::vector<std::int64_t> tokens, std::int64_t context) {
  const auto cut = static_cast<std::int64_t>(0.9 * static_cast<double>(tokens.size()));
  const std::int64_t rest = static_cast<std::int64_t>(tokens.size()) - cut;
  if (std::min(cut, rest) <= context)
    throw BadInput(
        fmt::format("text: must have at least {:.0f} tokens for a context of {} (a tenth is for validation); "
                    "got {}; give more text or a smaller --context",
                    10 * (static_cast<double>(context) + 1), context, tokens.size()));
  Split split;
  split.validation.assign(tokens.begin() + cut, tokens.end());
  tokens.resize(static_cast<std::size_t>(cut));
  split.training = std::move(tokens);
  return split;
}

}  // namespace toy_lm
