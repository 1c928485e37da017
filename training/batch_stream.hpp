// An endless stream of batches that are made in the background, and whose place can be saved.
#pragma once
#include <functional>
#include <memory>

#include <tapegrad/autograd/state_dict.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad::data {

/// Batch number n is a function of n alone: `make(n)` is called without recording, and with a random state of this
/// thread that follows from the seed and n. So nothing depends on how far ahead batches are made.
class BatchStream {
 public:
  using Make = std::function<Tensors(std::int64_t number)>;
  /// What must be the same for a saved position to mean the same; the names are for error texts.
  struct Setting {
    const char* name;
    std::int64_t value;
  };

  /// `name` (a literal) is for error texts. Up to `prefetch` batches are made ahead by a thread of its own, which calls
  /// a copy of `make`; with 0, next() makes them. ValueError if that is negative.
  BatchStream(const char* name, std::vector<Setting> settings, std::uint64_t seed, std::int64_t prefetch, Make make);
  BatchStream(BatchStream&&) = delete;  // and so no copies
  ~BatchStream();

  /// Batch number position(), which then moves on. What `make` throws is thrown here; the position then stays.
  Tensors next();
  std::int64_t position() const { return position_; }
  /// ValueError if it is negative.
  void seek(std::int64_t position);

  /// "position", and "settings" and the seed to compare with.
  StateDict state_dict() const;
  /// ValueError that lists all that is missing, unexpected or wrong, and then nothing is changed.
  void load_state_dict(const StateDict& entries);

 private:
  class Worker;
  Tensors made(const Make& make, std::int64_t number) const;

  const char* name_;
  std::vector<Setting> settings_;
  std::uint64_t seed_;
  std::size_t prefetch_;
  Make make_;
  std::int64_t position_ = 0;
  struct End {
    void operator()(Worker* worker) const noexcept;
  };
  std::unique_ptr<Worker, End> worker_;  // from the first batch on
};

/// The state of random numbers that follow from `seed` and `stream`, and are not those that manual_seed(seed) gives.
RandomState stream_state(std::uint64_t seed, std::uint64_t stream);

}  // namespace tapegrad::data
