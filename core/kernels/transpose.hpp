// Transposition of a strip of a matrix in registers. Private to the library.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tapegrad::core::kernels {

/// Transposes a square of 32-byte rows in registers: log2(n) rounds in which row i meets row i + n/2, interleaved.
template <class T>
void transpose_square(T* to, std::int64_t to_step, const T* from, std::int64_t from_step) {
  using Word = std::conditional_t<sizeof(T) == 4, float, double>;
  typedef Word Row __attribute__((vector_size(32)));
  constexpr int n = 32 / sizeof(T);
  Row rows[n], mixed[n];
  for (int i = 0; i < n; ++i) std::memcpy(&rows[i], from + i * from_step, sizeof(Row));
  for (int round = 1; round < n; round *= 2) {
    for (int i = 0; i < n / 2; ++i) {
      if constexpr (n == 8) {
        mixed[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
        mixed[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
      } else {
        mixed[2 * i] = __builtin_shufflevector(rows[i], rows[i + 2], 0, 4, 1, 5);
        mixed[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 2], 2, 6, 3, 7);
      }
    }
    std::copy(mixed, mixed + n, rows);
  }
  for (int i = 0; i < n; ++i) std::memcpy(to + i * to_step, &rows[i], sizeof(Row));
}

/// A strip of a transposition: to[i * to_step + j] = from[i + j * from_step] for i < height, j < width.
template <class T>
void transpose_strip(T* to, std::int64_t to_step, const T* from, std::int64_t from_step, std::int64_t height,
                     std::int64_t width) {
  std::int64_t done_height = 0, done_width = 0;
  if constexpr (sizeof(T) >= 4) {
    constexpr std::int64_t n = 32 / sizeof(T);
    done_height = height / n * n;
    done_width = width / n * n;
    for (std::int64_t j = 0; j < done_width; j += n)
      for (std::int64_t i = 0; i < done_height; i += n)
        transpose_square(to + i * to_step + j, to_step, from + i + j * from_step, from_step);
  }
  for (std::int64_t i = 0; i < height; ++i)
    for (std::int64_t j = i < done_height ? done_width : 0; j < width; ++j)
      to[i * to_step + j] = from[i + j * from_step];
}

}  // namespace tapegrad::core::kernels
