// Tensors as text, in PyTorch's layout, and as vectors.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/core/dispatch.hpp>

namespace tapegrad {
namespace {

using core::Array;

constexpr std::int64_t kMostElements = 1000;  // more than this, and the middle of long axes is left out
constexpr std::int64_t kEdge = 3;             // elements shown at each end of an axis then

/// Nested brackets around elements that are formatted alike.
class Printer {
 public:
  explicit Printer(const Array& array) : array_(array), short_(array.numel() > kMostElements) {
    visit(array_, [this](const Array& element) { measure(element); });
    choose_style();
    visit(array_, [this](const Array& element) { width_ = std::max(width_, format(element).size()); });
  }

  std::string print(int indent) const { return print(array_, indent); }

 private:
  static double real(const Array& element) {
    return element.dtype() == float32 ? static_cast<double>(*element.data<float>()) : *element.data<double>();
  }

  /// Positions of an axis that are shown; -1 stands for what is left out.
  std::vector<std::int64_t> positions(std::int64_t size) const {
    std::vector<std::int64_t> shown;
    for (std::int64_t i = 0; i < size; ++i) {
      if (short_ && size > 2 * kEdge && i == kEdge) {
        shown.push_back(-1);
        i = size - kEdge;
      }
      shown.push_back(i);
    }
    return shown;
  }

  static Array at(const Array& array, std::int64_t position) {
    return Array(array.storage(), array.offset() + position * array.strides()[0], array.shape().sub(1, array.rank()),
                 array.strides().sub(1, array.rank()), array.dtype());
  }

  template <class F>
  void visit(const Array& array, F&& f) const {
    if (array.rank() == 0) return f(array);
    for (std::int64_t position : positions(array.size(0)))
      if (position >= 0) visit(at(array, position), f);
  }

  void measure(const Array& element) {
    if (!is_floating(element.dtype()) || !std::isfinite(real(element))) return;
    const double size = std::abs(real(element));
    whole_ = whole_ && size == std::floor(size);
    largest_ = std::max(largest_, size);
    if (size > 0) smallest_ = std::min(smallest_, size);
  }

  /// Whole numbers end in a point; others have four digits behind it, with an exponent if they range too far.
  void choose_style() {
    const bool wide = largest_ > 0 && (largest_ / smallest_ > 1000 || smallest_ < 1e-4);
    scientific_ = largest_ >= 1e8 || (!whole_ && wide);
  }

  std::string format(const Array& element) const {
    if (element.dtype() == boolean) return *element.data<bool>() ? "true" : "false";
    if (element.dtype() == int64) return std::to_string(*element.data<std::int64_t>());
    const double value = real(element);
    if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    if (scientific_) return fmt::format("{:.4e}", value);
    return whole_ ? fmt::format("{:.0f}.", value) : fmt::format("{:.4f}", value);
  }

  std::string print(const Array& array, int indent) const {
    if (array.rank() == 0) return fmt::format("{:>{}}", format(array), width_);
    const auto line_breaks = static_cast<std::size_t>(array.rank()) - 1;
    const std::string between = "," + std::string(line_breaks, '\n') + std::string(line_breaks ? indent + 1 : 1, ' ');
    std::string text = "[";
    for (std::int64_t position : positions(array.size(0))) {
      if (text.size() > 1) text += between;
      text += position < 0 ? "..." : print(at(array, position), indent + 1);
    }
    return text + "]";
  }

  Array array_;
  bool short_;
  bool whole_ = true;
  bool scientific_ = false;
  double largest_ = 0;
  double smallest_ = HUGE_VAL;
  std::size_t width_ = 0;
};

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) return "tensor(undefined)";
  constexpr std::string_view kOpen = "tensor(";
  const bool hides_shape = numel() == 0 ? rank() != 1 : numel() > kMostElements;
  const std::string shape_text = hides_shape ? fmt::format("shape={}, ", shape().to_string()) : "";
  const std::string values = numel() == 0 ? "[]" : Printer(array()).print(static_cast<int>(kOpen.size()));
  return fmt::format("{}{}, {}dtype={})", kOpen, values, shape_text, name_of(dtype()));
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  autograd::check_defined("to_vector", *this);
  const Array values = array().converted(dtype_of<T>).contiguous();
  return std::vector<T>(values.data<T>(), values.data<T>() + values.numel());
}
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;

}  // namespace tapegrad
