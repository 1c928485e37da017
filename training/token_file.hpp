// Tokens of a long text, in memory or in a file that is mapped into it: a file may be larger than memory.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tapegrad::data {

/// A sequence of tokens that is only read; copies and slices share it.
class Tokens {
 public:
  Tokens(const std::vector<std::int64_t>& tokens);
  /// A file that write_tokens wrote. FileError that names it if it is no such file or damaged. The file may be replaced
  /// meanwhile, but not be cut or written over in place.
  static Tokens open(const std::string& path);

  std::int64_t size() const { return end_ - begin_; }
  /// Tokens begin ... end - 1, without a copy: a part for training, a part for validation. IndexError unless
  /// 0 <= begin <= end <= size().
  Tokens slice(std::int64_t begin, std::int64_t end) const;
  /// out.size() tokens from `begin` on. IndexError if there are not so many; FileError, with its place, for one that is
  /// not in the file's vocabulary.
  void copy(std::int64_t begin, std::span<std::int64_t> out) const;

 private:
  struct Source;
  Tokens(std::shared_ptr<const Source> source, std::int64_t begin, std::int64_t end)
      : source_(std::move(source)), begin_(begin), end_(end) {}

  std::shared_ptr<const Source> source_;
  std::int64_t begin_, end_;
};

/// Replaces the file as a whole, or throws FileError: "tgtokens", the version 1 and the bytes of a token (2 up to a
/// vocabulary of 65536, else 4) as 32-bit numbers, the vocabulary as one of 64 bits, the tokens, and their number as
/// one of 64 bits; all little-endian. IndexError, and the old file stays, for a token outside [0, vocabulary).
void write_tokens(const std::string& path, std::int64_t vocabulary, std::span<const std::int64_t> tokens);
/// The same piece by piece, until `next` gives an empty one: for texts larger than memory.
void write_tokens(const std::string& path, std::int64_t vocabulary,
                  const std::function<std::vector<std::int64_t>()>& next);

}  // namespace tapegrad::data
