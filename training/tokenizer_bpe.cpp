#include <tapegrad/training/tokenizer_bpe.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_set>

#include <tapegrad/core/require.hpp>

namespace tapegrad::data {
namespace {

using Pair = BpeTokenizer::Pair;
using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t kBytes = 256;
constexpr std::size_t kLongestPiece = 64;
constexpr std::size_t kMostBytes = std::size_t{1} << 26;

std::uint64_t key(std::int32_t first, std::int32_t second) {
  return static_cast<std::uint64_t>(first) << 32 | static_cast<std::uint32_t>(second);
}

enum class Kind { space, letter, digit, other };
Kind kind_of(char c) {
  if (c == ' ' || (c >= '\t' && c <= '\r')) return Kind::space;
  if (c >= '0' && c <= '9') return Kind::digit;
  const char small = static_cast<char>(c | 0x20);
  return (small >= 'a' && small <= 'z') || (c & 0x80) ? Kind::letter : Kind::other;
}

/// The piece that `text`, which is not empty, begins with.
std::string_view first_piece(std::string_view text) {
  const std::size_t size = std::min(text.size(), kLongestPiece);
  const bool space_before = text[0] == ' ' && size > 1 && kind_of(text[1]) != Kind::space;
  const Kind kind = kind_of(text[space_before]);
  std::size_t end = 1;
  while (end < size && kind_of(text[end]) == kind) ++end;
  // The last space of several belongs to what follows them.
  if (kind == Kind::space && end > 1 && end < text.size() && text[end - 1] == ' ' && kind_of(text[end]) != Kind::space)
    --end;
  return text.substr(0, end);
}

Tokens bytes_of(std::string_view piece) {
  Tokens tokens;
  for (char c : piece) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

/// Replaces the pair by `token`, from left to right.
void merge(Tokens& tokens, Pair pair, std::int32_t token) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tokens.size(); ++kept) {
    const bool found = i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
    tokens[kept] = found ? token : tokens[i];
    i += found ? 2 : 1;
  }
  tokens.resize(kept);
}

/// Counts of all pairs, kept up to date merge by merge: only the pieces that hold the merged pair are looked at.
class PairCounts {
 public:
  explicit PairCounts(std::string_view text) {
    std::unordered_map<std::string_view, std::size_t> known;
    for (std::string_view piece; !text.empty(); text.remove_prefix(piece.size())) {
      piece = first_piece(text);
      const auto [place, is_new] = known.emplace(piece, pieces_.size());
      if (is_new) pieces_.push_back({bytes_of(piece), 0});
      ++pieces_[place->second].count;
    }
    for (std::size_t i = 0; i < pieces_.size(); ++i) count(i, 1, kAny);
    queue_changed();
  }

  /// The most frequent pair, merged; nothing if no pair comes twice.
  bool merge_most_frequent(std::int32_t token, Pair& pair) {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      if (best.count < 2) continue;
      const auto found = pairs_.find(key(best.pair.first, best.pair.second));
      if (found == pairs_.end() || found->second.count != best.count) continue;  // it has changed since it was queued
      pair = best.pair;
      for (const std::size_t i : std::exchange(found->second.pieces, {})) {
        count(i, -1, token);
        merge(pieces_[i].tokens, pair, token);
        count(i, 1, token);
      }
      pairs_.erase(key(pair.first, pair.second));
      queue_changed();
      return true;
    }
    return false;
  }

 private:
  struct Piece {
    Tokens tokens;
    std::int64_t count;  // how often it comes in the text
  };
  struct PairCount {
    std::int64_t count = 0;
    std::vector<std::size_t> pieces;  // those that hold it, and some that did
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  /// Adds or takes away the pairs of a piece. Those that `made`, a new token, has no part in know the piece already.
  void count(std::size_t piece, std::int64_t sign, std::int32_t made) {
    const auto& [tokens, times] = pieces_[piece];
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      PairCount& pair = pairs_[key(tokens[i], tokens[i + 1])];
      pair.count += sign * times;
      const bool is_new = made == kAny || tokens[i] == made || tokens[i + 1] == made;
      if (sign > 0 && is_new && (pair.pieces.empty() || pair.pieces.back() != piece)) pair.pieces.push_back(piece);
      changed_.insert({tokens[i], tokens[i + 1]});
    }
  }
  void queue_changed() {
    for (const Pair& pair : changed_)
      if (const auto found = pairs_.find(key(pair.first, pair.second)); found != pairs_.end())
        queue_.push({found->second.count, pair});
    changed_.clear();
  }

  struct PairHash {
    std::size_t operator()(const Pair& pair) const { return std::hash<std::uint64_t>()(key(pair.first, pair.second)); }
  };
  static constexpr std::int32_t kAny = -1;
  std::vector<Piece> pieces_;
  std::unordered_map<std::uint64_t, PairCount> pairs_;
  std::unordered_set<Pair, PairHash> changed_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

BpeTokenizer::BpeTokenizer(std::vector<Pair> merges) : merges_(std::move(merges)) {
  for (int byte = 0; byte < kBytes; ++byte) bytes_.emplace_back(1, static_cast<char>(byte));
  std::size_t total = 0;
  for (std::size_t i = 0; i < merges_.size(); ++i) {
    const auto [first, second] = merges_[i];
    const auto token = static_cast<std::int32_t>(bytes_.size());
    const auto is_before = [&](std::int32_t other) { return other >= 0 && other < token; };
    const bool fits = is_before(first) && is_before(second) && merged_.emplace(key(first, second), token).second;
    if (fits) total += bytes_[static_cast<std::size_t>(first)].size() + bytes_[static_cast<std::size_t>(second)].size();
    require(fits && total <= kMostBytes,
            "BpeTokenizer: merges must be of tokens before them, each pair once, in at most {} bytes together; got "
            "[{}, {}] as merge {}",
            kMostBytes, first, second, i);
    bytes_.push_back(bytes_[static_cast<std::size_t>(first)] + bytes_[static_cast<std::size_t>(second)]);
  }
}

BpeTokenizer BpeTokenizer::train(std::string_view text, std::int64_t vocabulary) {
  require(vocabulary >= kBytes && vocabulary <= INT32_MAX,
          "BpeTokenizer::train: the vocabulary must be from {}, the bytes, to 2^31 - 1; got {}", kBytes, vocabulary);
  PairCounts counts(text);
  std::vector<Pair> merges;
  Pair pair;
  for (auto token = kBytes; token < vocabulary && counts.merge_most_frequent(token, pair); ++token)
    merges.push_back(pair);
  return BpeTokenizer(std::move(merges));
}

std::vector<std::int64_t> BpeTokenizer::encode(std::string_view text) const {
  std::unordered_map<std::string_view, Tokens> known;
  std::vector<std::int64_t> result;
  for (std::string_view piece; !text.empty(); text.remove_prefix(piece.size())) {
    piece = first_piece(text);
    const auto [place, is_new] = known.try_emplace(piece);
    Tokens& tokens = place->second;
    if (is_new) tokens = bytes_of(piece);
    while (is_new) {  // the earliest merge first, as in training
      std::int32_t token = INT32_MAX;
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
        if (const auto found = merged_.find(key(tokens[i], tokens[i + 1])); found != merged_.end())
          token = std::min(token, found->second);
      if (token == INT32_MAX) break;
      merge(tokens, merges_[static_cast<std::size_t>(token - kBytes)], token);
    }
    result.insert(result.end(), tokens.begin(), tokens.end());
  }
  return result;
}

std::string BpeTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) text += bytes_[checked(tokens[i], i)];
  return text;
}

std::string BpeTokenizer::to_json() const { return nlohmann::json{{"type", "bpe"}, {"merges", merges_}}.dump(); }

}  // namespace tapegrad::data
