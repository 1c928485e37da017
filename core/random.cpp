#include <algorithm>
#include <numbers>

#include <xsimd/xsimd.hpp>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/philox.hpp>
#include <tapegrad/core/random.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad {
namespace {

constexpr std::uint64_t kDefaultSeed = 0;
thread_local RandomState generator{kDefaultSeed, 0};

}  // namespace

void manual_seed(std::uint64_t seed) { generator = {seed, 0}; }
RandomState random_state() { return generator; }
void set_random_state(const RandomState& state) { generator = state; }

namespace core {
namespace {

constexpr int kCounters = PhiloxBlock::kCounters;
constexpr std::int64_t kBlocksPerTask = 256;

/// Numbers of type T that one counter gives.
template <class T>
inline constexpr int kPerCounter = 16 / sizeof(T);

/// draw(block, out) writes the kCounters * kPerCounter<T> numbers of each block; the last ones may be cut off.
template <class T, class Draw>
void draw_all(const Array& array, Draw&& draw) {
  constexpr std::int64_t per_block = kCounters * kPerCounter<T>;
  const std::int64_t size = array.numel();
  const RandomState state = take_random(static_cast<std::uint64_t>((size + kPerCounter<T> - 1) / kPerCounter<T>));
  T* out = array.data<T>();
  parallel_ranges((size + per_block - 1) / per_block, kBlocksPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const PhiloxBlock block(state.seed, state.position + static_cast<std::uint64_t>(i * kCounters));
      if ((i + 1) * per_block <= size) {
        draw(block, out + i * per_block);
      } else {
        T last[per_block];
        draw(block, last);
        std::copy(last, last + (size - i * per_block), out + i * per_block);
      }
    }
  });
}

template <class Draw>
Array draw_floating(const char* operation, const Shape& shape, Dtype dtype, const Draw& draw) {
  Array result(shape, dtype);
  dispatch_floating(operation, dtype, [&]<class T>(Type<T>) { draw_all<T>(result, draw); });
  return result;
}

void draw_uniform(const PhiloxBlock& block, float* out) {
  for (int i = 0; i < kCounters; ++i)
    for (int j = 0; j < 4; ++j) out[4 * i + j] = static_cast<float>(block.words[j][i] >> 8) * 0x1p-24f;
}

void draw_uniform(const PhiloxBlock& block, double* out) {
  for (int i = 0; i < kCounters; ++i)
    for (int j = 0; j < 2; ++j) out[2 * i + j] = static_cast<double>(block.wide(j, i) >> 11) * 0x1p-53;
}

/// Box and Muller: `chance` in (0, 1] and `turn` in [0, 1) become two independent normal numbers.
template <class T>
void to_normal(T* chance, T* turn) {
  using Batch = xsimd::batch<T>;
  static_assert(kCounters % Batch::size == 0);
  for (int i = 0; i < kCounters; i += static_cast<int>(Batch::size)) {
    // The logarithm of 1 may round to above 0; the radius must be a number all the same.
    const Batch square = T{-2} * xsimd::log(Batch::load_aligned(chance + i));
    const Batch radius = xsimd::sqrt(xsimd::max(square, Batch(T{0})));
    const auto [sine, cosine] = xsimd::sincos(T{2} * std::numbers::pi_v<T> * Batch::load_aligned(turn + i));
    (radius * cosine).store_aligned(chance + i);
    (radius * sine).store_aligned(turn + i);
  }
}

void draw_normal(const PhiloxBlock& block, float* out) {
  alignas(64) float numbers[4][kCounters];
  for (int j = 0; j < 4; j += 2) {
    for (int i = 0; i < kCounters; ++i) {
      numbers[j][i] = static_cast<float>(block.words[j][i]) * 0x1p-32f + 0x1p-33f;
      numbers[j + 1][i] = static_cast<float>(block.words[j + 1][i] >> 8) * 0x1p-24f;
    }
    to_normal(numbers[j], numbers[j + 1]);
  }
  for (int i = 0; i < kCounters; ++i)
    for (int j = 0; j < 4; ++j) out[4 * i + j] = numbers[j][i];
}

void draw_normal(const PhiloxBlock& block, double* out) {
  alignas(64) double numbers[2][kCounters];
  for (int i = 0; i < kCounters; ++i) {
    numbers[0][i] = static_cast<double>((block.wide(0, i) >> 11) + 1) * 0x1p-53;
    numbers[1][i] = static_cast<double>(block.wide(1, i) >> 11) * 0x1p-53;
  }
  to_normal(numbers[0], numbers[1]);
  for (int i = 0; i < kCounters; ++i)
    for (int j = 0; j < 2; ++j) out[2 * i + j] = numbers[j][i];
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t counter) {
  std::array<std::uint32_t, 4> words{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0,
                                     0};
  philox_rounds(words[0], words[1], words[2], words[3], static_cast<std::uint32_t>(seed),
                static_cast<std::uint32_t>(seed >> 32));
  return words;
}

RandomState take_random(std::uint64_t counters) {
  const RandomState before = generator;
  generator.position += counters;
  return before;
}

Array random_uniform(const Shape& shape, Dtype dtype) {
  return draw_floating("random_uniform", shape, dtype,
                       [](const PhiloxBlock& block, auto* out) { draw_uniform(block, out); });
}

Array random_normal(const Shape& shape, Dtype dtype) {
  return draw_floating("random_normal", shape, dtype,
                       [](const PhiloxBlock& block, auto* out) { draw_normal(block, out); });
}

Array random_integers(std::int64_t low, std::int64_t high, const Shape& shape) {
  Array result(shape, int64);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  draw_all<std::int64_t>(result, [=](const PhiloxBlock& block, std::int64_t* out) {
    // The high half of a 64 x 64 bit product: no value is likelier than another by more than range / 2^64.
    __extension__ using Wide = unsigned __int128;
    for (int i = 0; i < kCounters; ++i)
      for (int j = 0; j < 2; ++j)
        out[2 * i + j] = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                                   static_cast<std::uint64_t>(Wide{block.wide(j, i)} * range >> 64));
  });
  return result;
}

}  // namespace core
}  // namespace tapegrad
