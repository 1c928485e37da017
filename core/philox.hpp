// Philox4x32-10 in the open, so that kernels which draw as they go can inline it. Private to the library.
#pragma once
#include <cstdint>

namespace tapegrad::core {

/// Ten rounds on a counter of four words, in place, under a key of two.
inline void philox_rounds(std::uint32_t& c0, std::uint32_t& c1, std::uint32_t& c2, std::uint32_t& c3, std::uint32_t k0,
                          std::uint32_t k1) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(b);
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

/// The words of kCounters consecutive counters: words[j][i] is word j of counter i. The form that compilers vectorise.
struct PhiloxBlock {
  static constexpr int kCounters = 16;
  alignas(64) std::uint32_t words[4][kCounters];

  PhiloxBlock(std::uint64_t seed, std::uint64_t first) {
    const std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int i = 0; i < kCounters; ++i) {
      const std::uint64_t counter = first + static_cast<std::uint64_t>(i);
      std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32), c2 = 0,
                    c3 = 0;
      philox_rounds(c0, c1, c2, c3, k0, k1);
      words[0][i] = c0;
      words[1][i] = c1;
      words[2][i] = c2;
      words[3][i] = c3;
    }
  }

  /// Words 2 * pair and 2 * pair + 1 of counter i as one number.
  std::uint64_t wide(int pair, int i) const {
    return words[2 * pair][i] | static_cast<std::uint64_t>(words[2 * pair + 1][i]) << 32;
  }
};

}  // namespace tapegrad::core
