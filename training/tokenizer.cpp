#include <tapegrad/training/tokenizer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/training/tokenizer_bpe.hpp>

namespace tapegrad::data {
namespace {

using nlohmann::json;

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

}  // namespace

std::u32string decode_utf8(std::string_view bytes, const std::string& what) {
  std::u32string text;
  text.reserve(bytes.size());
  for (std::size_t position = 0; position < bytes.size();) {
    char32_t code_point = 0;
    if (!next_code_point(bytes, position, code_point))
      throw ValueError(fmt::format("{}: must be UTF-8; the byte {:#04x} at offset {} is not", what,
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

std::string shown(char32_t character) {
  if (character >= 0x20 && character < 0x7F) return fmt::format("'{}'", static_cast<char>(character));
  return fmt::format("U+{:04X}", static_cast<std::uint32_t>(character));
}

void Tokenizer::save(const std::string& path) const {
  core::write_file_atomically("Tokenizer::save", path, to_json() + "\n");
}

std::size_t Tokenizer::checked(std::int64_t token, std::size_t place) const {
  require<IndexError>(token >= 0 && token < size(), "decode: tokens must be from 0 to {}; got {} at position {}",
                      size() - 1, token, place);
  return static_cast<std::size_t>(token);
}

std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view text) {
  try {
    const json object = json::parse(text);
    const auto type = object.at("type").get<std::string>();
    std::unique_ptr<Tokenizer> tokenizer;
    if (type == "char") tokenizer = std::make_unique<CharTokenizer>(object.at("characters").get<std::string>());
    if (type == "bpe")
      tokenizer = std::make_unique<BpeTokenizer>(object.at("merges").get<std::vector<BpeTokenizer::Pair>>());
    require(tokenizer && json::parse(tokenizer->to_json()) == object,
            "parse_tokenizer: type must be char, with sorted characters, or bpe, with pairs of tokens as merges; got "
            "other text; take what to_json() gives");
    return tokenizer;
  } catch (const json::exception& error) {
    throw ValueError(fmt::format("parse_tokenizer: must be what to_json() gives; {}", error.what()));
  }
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  require<FileError>(file && !std::filesystem::is_directory(path), "load_tokenizer: '{}' must be a readable file; {}",
                     path, std::strerror(file ? EISDIR : errno));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return parse_tokenizer(text);
  } catch (const ValueError& error) {
    throw FileError(fmt::format("load_tokenizer: '{}' must be a tokenizer's file; {}", path, error.what()));
  }
}

CharTokenizer::CharTokenizer(std::string_view text) : characters_(decode_utf8(text, "CharTokenizer")) {
  require(!text.empty(), "CharTokenizer: the text must have at least one character; got none");
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
  for (char32_t character : characters_) tokens_.emplace(character, static_cast<std::int64_t>(tokens_.size()));
}

std::vector<std::int64_t> CharTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  for (char32_t character : decode_utf8(text, "encode")) {
    const auto found = tokens_.find(character);
    if (found == tokens_.end())
      throw ValueError(
          fmt::format("encode: the character {} at position {} must be one of the vocabulary's {}; leave it out, or "
                      "make the tokenizer from a text that has it",
                      shown(character), tokens.size(), size()));
    tokens.push_back(found->second);
  }
  return tokens;
}

std::string CharTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::u32string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) text += characters_[checked(tokens[i], i)];
  return encode_utf8(text);
}

std::string CharTokenizer::to_json() const {
  return json{{"type", "char"}, {"characters", encode_utf8(characters_)}}.dump();
}

}  // namespace tapegrad::data
