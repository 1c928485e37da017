// The outcome of a gradient check in words: the kind of fault, the worst elements, and a pattern if one fits.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapegrad/autograd/jacobian.hpp>

namespace tapegrad::autograd {
namespace {

/// Whether expected(i) is `block.numeric[i]` everywhere, up to a looser tolerance than the check's own.
template <class Expected>
bool fits(const JacobianBlock& block, const GradcheckOptions& options, Expected expected) {
  const double largest = std::abs(*std::max_element(block.numeric.begin(), block.numeric.end(),
                                                    [](double a, double b) { return std::abs(a) < std::abs(b); }));
  for (std::size_t i = 0; i < block.numeric.size(); ++i) {
    const double allowed = 10 * options.atol + 10 * options.rtol * std::abs(block.numeric[i]) + 1e-7 * largest;
    if (!(std::abs(expected(i) - block.numeric[i]) <= allowed)) return false;
  }
  return true;
}

std::string factor_hint(const JacobianBlock& block, const Shape& input, const Shape& output,
                        const GradcheckOptions& options) {
  double product = 0, square = 0;
  for (std::size_t i = 0; i < block.numeric.size(); ++i) {
    product += block.analytic[i] * block.numeric[i];
    square += block.numeric[i] * block.numeric[i];
  }
  const double factor = product / square;
  if (factor == 0 || !fits(block, options, [&](std::size_t i) { return block.analytic[i] / factor; })) return "";
  const auto near = [&](double value) { return std::abs(factor - value) < 1e-3 * std::abs(value); };
  if (near(2)) return "twice the numeric gradient everywhere: a term is counted twice, or a factor 1/2 is missing";
  if (near(0.5)) return "half the numeric gradient everywhere: a factor of 2 is missing";
  if (near(-1)) return "the negative of the numeric gradient everywhere: a sign is wrong";
  for (const Shape& shape : {input, output})
    if (shape.rank() > 0)
      for (const double size : {static_cast<double>(shape[0]), static_cast<double>(shape.numel())})
        if (size > 1 && (near(size) || near(1 / size)))
          return fmt::format(
              "{} times the numeric gradient everywhere, where {} is {}: a sum was taken for a mean, or a "
              "mean for a sum",
              near(size) ? fmt::format("{}", size) : fmt::format("1/{}", size), size,
              size == static_cast<double>(shape[0]) ? "the batch size" : "the number of elements");
  return fmt::format("{:.4g} times the numeric gradient everywhere: a constant factor is wrong", factor);
}

/// Each row of the Jacobian is a gradient of the input's shape: are its last two dimensions in the wrong order?
bool is_transposed(const JacobianBlock& block, const Shape& input, const GradcheckOptions& options) {
  if (block.sampled() || input.rank() < 2) return false;
  const auto n = static_cast<std::size_t>(input[input.rank() - 2]), m = static_cast<std::size_t>(input.back());
  return fits(block, options, [&](std::size_t i) {
    const std::size_t at = i % (n * m), swapped = (at % m) * n + at / m;
    return block.analytic[i - at + swapped];
  });
}

/// Some output elements give nothing at all, and all others are right.
bool lacks_rows(const JacobianBlock& block, const Shape& input, const Shape& output, const GradcheckOptions& options) {
  if (block.sampled() || input.numel() >= output.numel()) return false;
  return fits(block, options, [&](std::size_t i) {
    const double* row = block.analytic.data() + i / block.columns * block.columns;
    const bool blank = std::all_of(row, row + block.columns, [](double value) { return value == 0; });
    return blank ? block.numeric[i] : block.analytic[i];
  });
}

}  // namespace

std::string_view name_of(Fault fault) {
  constexpr std::string_view names[] = {"no fault",
                                        "wrong value",
                                        "wrong shape",
                                        "missing gradient",
                                        "non-finite value",
                                        "function not deterministic",
                                        "backward not repeatable",
                                        "kink suspected",
                                        "backward threw"};
  return names[static_cast<int>(fault)];
}

std::string element_name(const Shape& shape, std::size_t index) {
  Shape position = shape;
  auto rest = static_cast<std::int64_t>(index);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    position[axis] = rest % shape[axis];
    rest /= shape[axis];
  }
  return position.to_string();
}

std::string hint_for(const JacobianBlock& block, const Shape& input, const Shape& output,
                     const GradcheckOptions& options) {
  const auto zero = [](double value) { return value == 0; };
  if (std::all_of(block.analytic.begin(), block.analytic.end(), zero)) return "the gradient is zero everywhere";
  if (std::all_of(block.numeric.begin(), block.numeric.end(), zero)) return "the output doesn't depend on this input";
  if (std::string hint = factor_hint(block, input, output, options); !hint.empty()) return hint;
  if (is_transposed(block, input, options)) return "the transposed gradient is right: two dimensions are swapped";
  if (lacks_rows(block, input, output, options))
    return "the gradients of some output elements don't arrive and all others are right: a sum over what was broadcast "
           "is left out";
  return "";
}

std::string GradcheckReport::to_string() const {
  const std::string drawn = seed ? fmt::format(" (random directions from seed {})", *seed) : "";
  if (fault == Fault::none)
    return fmt::format("gradcheck passed: {}: {} elements compared{}, largest difference {:.3g}", function, compared,
                       drawn, max_error_);
  std::string text = fmt::format("gradcheck failed: {}: {}", function, name_of(fault));
  if (failed > 0) text += fmt::format(", {} of {} elements{}", failed, compared, drawn);
  if (!message.empty()) text += ": " + message;
  for (const GradcheckRow& row : rows)
    text += fmt::format(
        "\n  {} {}, output {} {}: analytic {:.8g}, numeric {:.8g}, difference {:.3g} (relative {:.3g}), "
        "tolerance {:.3g}",
        row.input_name, row.element, row.output, row.output_element, row.analytic, row.numeric, row.difference,
        row.relative, row.tolerance);
  if (static_cast<std::int64_t>(rows.size()) < failed)
    text += fmt::format("\n  ... and {} more", failed - static_cast<std::int64_t>(rows.size()));
  if (!hint.empty()) text += "\n  hint: " + hint;
  return text;
}

}  // namespace tapegrad::autograd
