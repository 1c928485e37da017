// Text as characters (code points): reading files, the vocabulary, the split into training and validation part.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tapegrad/training/tokenizer.hpp>

namespace toy_lm {

using tapegrad::data::encode_utf8;
using tapegrad::data::shown;

/// The library's function, with BadInput for ValueError.
std::u32string decode_utf8(std::string_view bytes, const std::string& what);

/// The files one after the other. BadInput for a file that is missing, unreadable, empty or not UTF-8.
std::u32string read_text_files(const std::vector<std::string>& paths);

/// The characters that a model knows; a token is the index of one.
class Vocabulary {
 public:
  /// The different characters of `text`, in the order of their code points.
  explicit Vocabulary(const std::u32string& text);

  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }
  const std::u32string& characters() const { return characters_; }
  /// BadInput, `what` in front, naming the first character that is not in the vocabulary and its position.
  std::vector<std::int64_t> encode(const std::u32string& text, const std::string& what) const;
  std::string decode(std::int64_t token) const;
  bool contains(char32_t character) const { return tokens_.contains(character); }

 private:
  std::u32string characters_;
  std::unordered_map<char32_t, std::int64_t> tokens_;
};

/// The first nine tenths and the rest.
struct Split {
  std::vector<std::int64_t> training;
  std::vector<std::int64_t> validation;
};
/// BadInput if either part is shorter than one window: `context` characters and the one that follows.
Split split_tokens(std::vector<std::int64_t> tokens, std::int64_t context);

}  // namespace toy_lm
