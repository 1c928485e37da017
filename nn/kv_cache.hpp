// What a causal layer keeps of the tokens that it has seen, so that the next ones need not compute it again.
#pragma once
#include <optional>

#include <tapegrad/core/array.hpp>

namespace tapegrad {
class Tensor;
}

namespace tapegrad::nn {

/// The keys and values of one attention layer. A new token is written behind them, in place. A copy is a fork: it
/// shares memory until one of the two goes on.
class KVCache {
 public:
  /// For at most `capacity` tokens (ValueError at the one after them); without one it grows by doubling. A layer with a
  /// window drops tokens that no query sees any more, so that its cache is never full if it holds a window and the new
  /// tokens; give it twice that, and it seldom has to move them.
  explicit KVCache(std::optional<std::int64_t> capacity = {});

  /// The tokens seen so far, dropped ones included: the position of the next one.
  std::int64_t length() const { return length_; }
  /// The tokens that there is memory for.
  std::int64_t capacity() const { return keys_.defined() ? keys_.size(1) : capacity_.value_or(0); }
  /// Forgets all tokens and keeps the memory.
  void reset() { length_ = stored_ = 0; }

  struct Entries {
    core::Array keys, values;
  };
  // Inside the library.
  /// Writes keys and values [N, H, T, width] behind what is there, and returns everything: views [N, H, S, width]. With
  /// `window`, at most so many tokens before the new ones. ShapeError or DtypeError, and nothing is changed, unless
  /// they are like those before.
  Entries append(const Tensor& keys, const Tensor& values, std::optional<std::int64_t> window = {});

 private:
  void make_room(const core::Array& keys, const core::Array& values, std::int64_t kept);

  std::optional<std::int64_t> capacity_;
  core::Array keys_, values_;  // [N, capacity, H, width]: tokens of one item are adjacent
  std::int64_t length_ = 0, stored_ = 0;
};

}  // namespace tapegrad::nn
