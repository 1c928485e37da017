#include <tapegrad/nn/positions.hpp>

#include <cmath>
#include <mutex>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/nn/init.hpp>

namespace tapegrad::nn {

/// Rows that depend on the position alone, kept between calls.
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

namespace {

void check_width(const char* operation, std::int64_t width) {
  require(width > 0 && width % 2 == 0, "{}: the width must be positive and even, for pairs of columns; got {}",
          operation, width);
}

/// The length of x [..., L, width], for positions from `offset` on.
std::int64_t checked_length(const char* operation, const Tensor& x, std::int64_t width, std::int64_t offset) {
  autograd::check_defined(operation, x);
  constexpr std::int64_t kLast = std::int64_t{1} << 52;  // beyond, a double is no position
  require<ShapeError>(x.rank() >= 2 && x.size(-1) == width, "{}: the input must be [..., length, width = {}]; got {}",
                      operation, width, x.shape());
  require<DtypeError>(is_floating(x.dtype()), "{}: the input must be floating; got {}; convert with .to()", operation,
                      x.dtype());
  require(offset >= 0 && offset <= kLast, "{}: offset must be in [0, 2^52]; got {}", operation, offset);
  return x.size(-2);
}

/// base^(-2 pair / width) for every column; pairs are neighbours, or stand in the two halves.
std::vector<double> rates(std::int64_t width, double base, bool in_halves) {
  std::vector<double> result;
  for (std::int64_t column = 0; column < width; ++column) {
    const std::int64_t pair = in_halves ? column % (width / 2) : column / 2;
    result.push_back(std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(width)));
  }
  return result;
}

std::shared_ptr<PositionTable> sinusoids(std::int64_t width) {
  return std::make_shared<PositionTable>(rates(width, 10000.0, false), [](double angle, std::size_t column, auto) {
    return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
  });
}

}  // namespace

Tensor PositionTable::rows(std::int64_t offset, std::int64_t length, Dtype dtype) {
  const std::scoped_lock lock(mutex_);
  if (!kept_.defined() || kept_.dtype() != dtype || offset < first_ || offset + length > first_ + kept_.size(0)) {
    const std::int64_t count = std::max(length, kAhead);
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(count) * rates_.size());
    for (std::int64_t row = 0; row < count; ++row)
      for (std::size_t column = 0; column < rates_.size(); ++column)
        values.push_back(formula_(static_cast<double>(offset + row) * rates_[column], column, rates_.size()));
    kept_ = from_vector(values, {count, static_cast<std::int64_t>(rates_.size())}, dtype);
    first_ = offset;
  }
  return narrow(kept_, 0, offset - first_, length);
}

LearnedPositions::LearnedPositions(std::int64_t max_length, std::int64_t width) : Module("LearnedPositions") {
  check_sizes({{"max_length", max_length}, {"width", width}});
  describe(fmt::format("max_length={}, width={}", max_length, width));
  weight_ = register_parameter("weight", init::normal_(empty({max_length, width}), 0.0, 0.02));
}

Tensor LearnedPositions::forward(const Operand& x, std::int64_t offset) const {
  const auto here = scope();
  const std::int64_t length = checked_length("LearnedPositions", x, weight_.size(1), offset);
  require(offset + length <= max_length(),
          "LearnedPositions: positions must be below max_length = {}; got {} from {} on; make the layer longer, or "
          "shorten the input",
          max_length(), length, offset);
  return finished(x + narrow(weight_, 0, offset, length));
}

Tensor sinusoidal_positions(std::int64_t length, std::int64_t width, std::int64_t offset, Dtype dtype) {
  check_width("sinusoidal_positions", width);
  checked_length("sinusoidal_positions", empty({length, width}, dtype), width, offset);
  return sinusoids(width)->rows(offset, length, dtype);
}

SinusoidalPositions::SinusoidalPositions(std::int64_t width) : Module("SinusoidalPositions"), width_(width) {
  check_width("SinusoidalPositions", width);
  describe(fmt::format("width={}", width));
  table_ = sinusoids(width);
}

Tensor SinusoidalPositions::forward(const Operand& x, std::int64_t offset) const {
  const auto here = scope();
  const std::int64_t length = checked_length("SinusoidalPositions", x, width_, offset);
  return finished(x + table_->rows(offset, length, x.dtype()));
}

RotaryEmbedding::RotaryEmbedding(std::int64_t width, double base) : width_(width) {
  check_width("RotaryEmbedding", width);
  require(base > 0 && std::isfinite(base), "RotaryEmbedding: base must be positive and finite; got {}", base);
  const std::vector<double> of_halves = rates(width, base, true);
  cosines_ = std::make_shared<PositionTable>(of_halves, [](double angle, auto, auto) { return std::cos(angle); });
  sines_ = std::make_shared<PositionTable>(of_halves, [](double angle, std::size_t column, std::size_t columns) {
    return column < columns / 2 ? -std::sin(angle) : std::sin(angle);
  });
}

/// (a, b) -> (a cos - b sin, b cos + a sin): rolled by half the width, each stands where its partner was.
Tensor RotaryEmbedding::rotate(const Operand& x, std::int64_t offset) const {
  const std::int64_t length = checked_length("RotaryEmbedding", x, width_, offset);
  return x * cosines_->rows(offset, length, x.dtype()) +
         roll(x, width_ / 2, -1) * sines_->rows(offset, length, x.dtype());
}

Tensor alibi_slopes(std::int64_t heads, Dtype dtype) {
  require(heads > 0 && heads <= (1 << 20), "alibi_slopes: heads must be in [1, 2^20]; got {}", heads);
  require<DtypeError>(is_floating(dtype), "alibi_slopes: slopes must be floating; got {}", dtype);
  std::int64_t power = 1;
  while (power <= heads / 2) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t i = 0; i < heads; ++i) {
    const auto [number, of] = i < power ? std::pair(i + 1, power) : std::pair(2 * (i - power) + 1, 2 * power);
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(number) / static_cast<double>(of)));
  }
  return from_vector(slopes, {heads}, dtype);
}

Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t keys, Dtype dtype) {
  require(queries >= 0 && keys >= 0, "alibi_bias: lengths must not be negative; got {} and {}", queries, keys);
  const Tensor distance = abs(arange(keys) - unsqueeze(arange(queries) + (keys - queries), 1));
  return alibi_slopes(heads, dtype).reshape({heads, 1, 1}) * -distance.to(dtype);
}

Tensor alibi_causal_bias(std::int64_t heads, std::int64_t keys, Dtype dtype) {
  return alibi_bias(heads, 1, keys, dtype);
}

}  // namespace tapegrad::nn
