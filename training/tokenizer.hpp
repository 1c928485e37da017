// Tokenizers: text to numbers and back.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tapegrad::data {

/// What all of them do. A token is a number from 0 to size() - 1.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t size() const = 0;
  /// Text is UTF-8. ValueError for text that can't be encoded.
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  /// IndexError for a number that is no token.
  virtual std::string decode(std::span<const std::int64_t> tokens) const = 0;
  std::string decode(std::int64_t token) const { return decode({&token, 1}); }
  /// All of it as one line of JSON, as for a file or the metadata of a safetensors file.
  virtual std::string to_json() const = 0;
  /// Replaces the file as a whole, or throws FileError.
  void save(const std::string& path) const;

 protected:
  /// `token`; IndexError, with its place, if it is none.
  std::size_t checked(std::int64_t token, std::size_t place) const;
};

/// Either kind of tokenizer from its to_json(). ValueError for other text.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json);
/// From the file that save() wrote. FileError that names it.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

/// A token for each different character (code point) of a text, in the order of their numbers. Nothing is normalised: a
/// carriage return or a byte order mark is a character like any other.
class CharTokenizer : public Tokenizer {
 public:
  /// ValueError if the text is not UTF-8 or empty.
  explicit CharTokenizer(std::string_view text);

  std::int64_t size() const override { return static_cast<std::int64_t>(characters_.size()); }
  const std::u32string& characters() const { return characters_; }
  bool contains(char32_t character) const { return tokens_.contains(character); }
  /// ValueError that shows the first character that is not in the vocabulary, and its position.
  std::vector<std::int64_t> encode(std::string_view text) const override;
  using Tokenizer::decode;
  std::string decode(std::span<const std::int64_t> tokens) const override;
  std::string to_json() const override;

 private:
  std::u32string characters_;
  std::unordered_map<char32_t, std::int64_t> tokens_;
};

/// Code points of UTF-8, strictly: no overlong forms, no surrogates. ValueError, `what` in front, with the offset of
/// the first byte that is wrong.
std::u32string decode_utf8(std::string_view bytes, const std::string& what = "decode_utf8");
std::string encode_utf8(std::u32string_view text);
/// A character as an error shows it: 'x', or U+00E9 if it is not a printable ASCII character.
std::string shown(char32_t character);

}  // namespace tapegrad::data
