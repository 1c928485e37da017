// Text as characters (code points): reading files, the vocabulary, the split into training and validation part.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tapegrad/training/tokenizer_bpe.hpp>

namespace toy_lm {

using tapegrad::data::encode_utf8;
using tapegrad::data::shown;

/// The library's function, with BadInput for ValueError.
std::u32string decode_utf8(std::string_view bytes, const std::string& what);

/// The files one after the other. BadInput for a file that is missing, unreadable, empty or not UTF-8.
std::u32string read_text_files(const std::vector<std::string>& paths);

/// The tokens that a model knows: characters, or pairs of pairs of bytes.
class Vocabulary {
 public:
  /// The different characters of `text`, in the order of their code points.
  explicit Vocabulary(const std::u32string& text);
  explicit Vocabulary(tapegrad::data::BpeTokenizer pairs) : pairs_(std::move(pairs)) {}

  std::int64_t size() const { return pairs_ ? pairs_->size() : static_cast<std::int64_t>(characters_.size()); }
  /// None if the tokens are pairs.
  const std::u32string& characters() const { return characters_; }
  const std::optional<tapegrad::data::BpeTokenizer>& pairs() const { return pairs_; }
  /// BadInput, `what` in front, naming the first character that is not in the vocabulary and its position.
  std::vector<std::int64_t> encode(const std::u32string& text, const std::string& what) const;
  /// Of a pair perhaps only part of a character.
  std::string decode(std::int64_t token) const;
  bool contains(char32_t character) const { return pairs_ || tokens_.contains(character); }

 private:
  std::u32string characters_;
  std::unordered_map<char32_t, std::int64_t> tokens_;
  std::optional<tapegrad::data::BpeTokenizer> pairs_;
};

/// The first nine tenths and the rest.
struct Split {
  std::vector<std::int64_t> training;
  std::vector<std::int64_t> validation;
};
/// BadInput if either part is shorter than one window: `context` tokens and the one that follows.
Split split_tokens(std::vector<std::int64_t> tokens, std::int64_t context);

}  // namespace toy_lm
