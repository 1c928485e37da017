// Random numbers from a counter-based generator (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011): a value depends on the seed and its position alone.
#pragma once
#include <array>
#include <cstdint>

#include <tapegrad/core/array.hpp>

namespace tapegrad {

/// The whole state of a generator.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t position = 0;
  friend bool operator==(const RandomState&, const RandomState&) = default;
};

/// Seeds this thread's generator. Each thread has its own, and a new thread starts from the library's default seed.
/// PyTorch's numbers are not reproduced from equal seeds.
void manual_seed(std::uint64_t seed);
RandomState random_state();
void set_random_state(const RandomState& state);

/// While it lives, random numbers may be drawn (from the state `inside`, if one is given); then this thread's generator
/// is where it was.
class RandomStateGuard {
 public:
  [[nodiscard]] RandomStateGuard() = default;
  [[nodiscard]] explicit RandomStateGuard(const RandomState& inside) { set_random_state(inside); }
  ~RandomStateGuard() { again(); }
  RandomStateGuard(const RandomStateGuard&) = delete;
  RandomStateGuard& operator=(const RandomStateGuard&) = delete;
  /// Back to the state of the beginning.
  void again() const { set_random_state(before_); }

 private:
  RandomState before_ = random_state();
};

namespace core {

/// Four random words for each (seed, counter).
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t counter);

/// Takes `counters` counters (of four words each) from this thread's generator and returns the state before.
RandomState take_random(std::uint64_t counters);

/// Uniform in [0, 1), of a floating dtype. The value of element i is that of counter i / 4 (float32) or i / 2
/// (float64).
Array random_uniform(const Shape& shape, Dtype dtype);
/// Standard normal, by Box and Muller.
Array random_normal(const Shape& shape, Dtype dtype);
/// Uniform integers in [low, high); low < high.
Array random_integers(std::int64_t low, std::int64_t high, const Shape& shape);

}  // namespace core
}  // namespace tapegrad
