// Rows that depend on the position alone, kept between calls. Private to the library.
#pragma once
#include <functional>
#include <mutex>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::nn {

class PositionTable {
 public:
  /// The element of `column` at a position.
  using Formula = std::function<double(double position, std::int64_t column)>;

  PositionTable(std::int64_t width, Formula formula) : width_(width), formula_(std::move(formula)) {}

  /// Positions offset ... offset + length - 1, [length, width]. What is kept is as long as the longest call, or kAhead
  /// positions, so that token after token finds its row. May be called from several threads.
  Tensor rows(std::int64_t offset, std::int64_t length, Dtype dtype);

 private:
  static constexpr std::int64_t kAhead = 256;

  std::int64_t width_;
  Formula formula_;
  std::mutex mutex_;
  std::int64_t first_ = 0;
  Tensor kept_;
};

}  // namespace tapegrad::nn
