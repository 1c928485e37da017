// Byte-level byte pair encoding (Gage, 1994; Sennrich et al., 2016; on bytes: Radford et al., 2019): frequent
// neighbours become one token, again and again. Any bytes can be encoded, and come back as they were.
#pragma once
#include <tapegrad/training/tokenizer.hpp>

namespace tapegrad::data {

/// Tokens 0 to 255 are the bytes; token 256 + i is the pair merges()[i] of tokens before it.
///
/// Merges don't cross the borders of pieces, into which text is cut first: a run of letters (ASCII's and all bytes
/// above it), of digits or of other signs, each with one space before it, if there is one; or a run of white space.
/// Longer runs are cut after 64 bytes.
class BpeTokenizer : public Tokenizer {
 public:
  using Pair = std::pair<std::int32_t, std::int32_t>;

  /// ValueError unless each merge is of tokens before it, no pair comes twice and the tokens' bytes, laid end to end,
  /// are at most 64 MiB.
  explicit BpeTokenizer(std::vector<Pair> merges);
  /// Merges the most frequent pair (of several, the one with the smallest first, then second token) until there are
  /// `vocabulary` tokens or no pair comes twice. ValueError if `vocabulary` is less than 256.
  static BpeTokenizer train(std::string_view text, std::int64_t vocabulary);

  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  const std::vector<Pair>& merges() const { return merges_; }
  /// Never throws for its text: any bytes will do.
  std::vector<std::int64_t> encode(std::string_view text) const override;
  using Tokenizer::decode;
  /// The bytes: part of a text may begin or end in the middle of a character.
  std::string decode(std::span<const std::int64_t> tokens) const override;
  std::string to_json() const override;

 private:
  std::vector<Pair> merges_;
  std::vector<std::string> bytes_;                          // of each token
  std::unordered_map<std::uint64_t, std::int32_t> merged_;  // the token of a pair
};

}  // namespace tapegrad::data
