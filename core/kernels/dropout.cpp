#include <algorithm>
#include <cmath>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/dropout.hpp>
#include <tapegrad/core/philox.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core::kernels {
namespace {

constexpr std::int64_t kWords = 4 * PhiloxBlock::kCounters;
constexpr std::int64_t kBlocksPerTask = 256;

/// Word 4 i + j of a block is word j of its counter i. A word below `threshold` drops its element.
template <class T>
void drop_block(T* y, const T* x, const PhiloxBlock& block, std::uint64_t threshold, T scale) {
  for (int i = 0; i < PhiloxBlock::kCounters; ++i)
    for (int j = 0; j < 4; ++j) {
      const T kept = x[4 * i + j] * scale;
      y[4 * i + j] = block.words[j][i] < threshold ? T(0) : kept;
    }
}

}  // namespace

std::uint64_t dropout_counters(std::int64_t size) { return static_cast<std::uint64_t>((size + 3) / 4); }

Array dropout(const Array& x_any, double p, const RandomState& state) {
  const Array x = x_any.contiguous();
  const Array y(x.shape(), x.dtype());
  const std::int64_t size = x.numel();
  const std::uint64_t threshold = dropout_threshold(p);
  dispatch_floating("dropout", x.dtype(), [&]<class T>(Type<T>) {
    const T scale = dropout_scale<T>(p);
    parallel_ranges((size + kWords - 1) / kWords, kBlocksPerTask, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const PhiloxBlock block(state.seed, state.position + static_cast<std::uint64_t>(i * PhiloxBlock::kCounters));
        const T* from = x.data<T>() + i * kWords;
        T* to = y.data<T>() + i * kWords;
        const std::int64_t count = std::min(kWords, size - i * kWords);
        if (count == kWords) {
          drop_block(to, from, block, threshold, scale);
        } else {
          T rest[kWords] = {};
          std::copy_n(from, count, rest);
          drop_block(rest, rest, block, threshold, scale);
          std::copy_n(rest, count, to);
        }
      }
    });
  });
  return y;
}

}  // namespace tapegrad::core::kernels
