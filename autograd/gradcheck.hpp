// Gradient checks: the numeric Jacobian, by central differences in float64, against the one that the tape gives.
#pragma once
#include <functional>
#include <optional>

#include <tapegrad/autograd/state_dict.hpp>

namespace tapegrad::autograd {

struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5;
  double rtol = 1e-3;
  /// More numbers than this in one Jacobian are not computed one by one: random directions are used instead.
  std::int64_t max_jacobian = 1 << 16;
  /// How many random directions, and the seed that they are drawn from.
  int directions = 8;
  std::uint64_t seed = 0;
  /// How many rows of the report are kept for each pair of input and output.
  int rows = 5;
};

/// What kind of fault a failed check found.
enum class Fault { none, value, shape, missing_gradient, non_finite, not_deterministic, not_repeatable, kink, threw };
std::string_view name_of(Fault fault);

/// One element of a Jacobian whose two values differ: d output[output_element] / d input[input_element].
struct GradcheckRow {
  int input = 0;
  std::string input_name;
  std::string element;  // "[0, 2]"
  int output = 0;
  std::string output_element;  // "[1]", or "direction 3"
  double analytic = 0;
  double numeric = 0;
  double difference = 0;
  double relative = 0;
  double tolerance = 0;
};

/// The outcome: true if every element holds |analytic - numeric| <= atol + rtol |numeric|.
class [[nodiscard]] GradcheckReport {
 public:
  explicit operator bool() const { return fault == Fault::none; }
  /// The largest |analytic - numeric|.
  double max_error() const { return max_error_; }
  std::string to_string() const;

  Fault fault = Fault::none;
  std::string function = "function";
  std::string message;  // the fault in words, when rows can't say it
  std::string hint;     // a simple pattern that fits: a factor, a transposition, a missing sum
  std::int64_t compared = 0;
  std::int64_t failed = 0;
  std::vector<GradcheckRow> rows;     // the worst first
  std::optional<std::uint64_t> seed;  // of the random directions, if any were used
  double max_error_ = 0;
};

/// A function of tensors that returns one tensor or several. ValueError if there is nothing to call.
class Function {
 public:
  template <class F, class = std::enable_if_t<std::is_invocable_v<F&, const Tensors&>>>
  Function(F f) {
    check_function("Function", f);
    if constexpr (std::is_convertible_v<std::invoke_result_t<F&, const Tensors&>, Tensor>)
      call_ = [f = std::move(f)](const Tensors& in) mutable { return Tensors{f(in)}; };
    else
      call_ = std::move(f);
  }
  Tensors operator()(const Tensors& inputs) const { return call_(inputs); }

 private:
  std::function<Tensors(const Tensors&)> call_;
};

/// Checks the gradients of `function` with respect to every floating input; integer inputs are passed on. All floating
/// inputs must be float64 (DtypeError). Inputs, their gradients, the random state and grad mode are left as they were.
GradcheckReport gradcheck(const Function& function, const Tensors& inputs, const GradcheckOptions& options = {});
/// Checks gradients of gradients: gradcheck of the function (inputs, gradients of outputs) -> gradients of inputs.
GradcheckReport gradgradcheck(const Function& function, const Tensors& inputs, const GradcheckOptions& options = {});

/// The same with respect to named tensors that `function` uses without being handed them: a module's parameters.
using NamedTensors = std::vector<NamedTensor>;
GradcheckReport gradcheck(const std::function<Tensor()>& function, const NamedTensors& parameters,
                          const GradcheckOptions& options = {});

}  // namespace tapegrad::autograd
