// Rows that depend on the position alone, kept between calls. Private to the library.
#pragma once
#include <mutex>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::nn {

class PositionTable {
 public:
  /// The element of `column` at a position, given its angle there, position times rates[column].
  using Formula = double (*)(double angle, std::size_t column, std::size_t width);

  PositionTable(std::vector<double> rates, Formula formula) : rates_(std::move(rates)), formula_(formula) {}

  /// Positions offset ... offset + length - 1, [length, width]. A call whose rows are not there makes them from
  /// `offset` on, at least kAhead, so that token after token finds its row. May be called from several threads.
  Tensor rows(std::int64_t offset, std::int64_t length, Dtype dtype);

 private:
  static constexpr std::int64_t kAhead = 256;

  std::vector<double> rates_;
  Formula formula_;
  std::mutex mutex_;
  std::int64_t first_ = 0;
  Tensor kept_;
};

}  // namespace tapegrad::nn
