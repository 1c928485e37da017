#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/grad.hpp>
#include <tapegrad/autograd/gradcheck.hpp>
#include <tapegrad/autograd/jacobian.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad::autograd {
namespace {

/// At most this many failing elements are looked at from both sides: each costs several evaluations.
constexpr std::size_t kMostKinks = 32;

/// Puts back what a check, or the function that it calls, might change; also when the function throws.
class StateGuard {
 public:
  explicit StateGuard(const Tensors& tensors) : tensors_(tensors) {
    for (const Tensor& tensor : tensors) {
      gradients_.push_back(tensor.defined() ? tensor.grad() : Tensor());
      wanted_.push_back(tensor.defined() && tensor.body()->requires_grad);
    }
    set_grad_enabled(true);
  }
  ~StateGuard() {
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (tensors_[i].defined()) {
        tensors_[i].body()->grad = gradients_[i];
        tensors_[i].body()->requires_grad = wanted_[i];
      }
    set_grad_enabled(enabled_);
    set_random_state(random_);
  }
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

 private:
  Tensors tensors_;
  Tensors gradients_;
  std::vector<bool> wanted_;
  bool enabled_ = grad_enabled();
  RandomState random_ = random_state();
};

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

class Check {
 public:
  Check(Problem problem, const GradcheckOptions& options) : problem_(std::move(problem)), options_(options) {}

  GradcheckReport run() {
    outputs_ = evaluate_checked(problem_);
    for (const Tensor& output : outputs_) problem_.shapes.push_back(output.shape());
    for (const Tensor& output : outputs_)
      if (const Entry* entry = output.body()->entry.get()) {
        report_.function = std::string("function that ends in ") + entry->name();
        break;
      }
    if (!forward_repeats() || !sweeps_work()) return report_;
    for (const JacobianBlock& block : jacobian_blocks(problem_, outputs_, options_)) compare(block);
    if (report_.failed > 0) classify();
    return report_;
  }

 private:
  struct Failure {
    const JacobianBlock* block;
    std::int64_t row;
    std::int64_t column;
    double excess;  // difference / tolerance; infinite for NaN
  };

  const Tensor& leaf(const JacobianBlock& block) const {
    return problem_.targets[static_cast<std::size_t>(block.input)].leaf;
  }

  bool fail(Fault fault, std::string message) {
    report_.fault = fault;
    report_.message = std::move(message);
    return false;
  }

  bool forward_repeats() {
    const Tensors again = evaluate_checked(problem_);
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      if (!same_bits(outputs_[k].to_vector<double>(), again[k].to_vector<double>()))
        return fail(Fault::not_deterministic, "output " + std::to_string(k) +
                                                  " differs between two calls with the same inputs; seed the random "
                                                  "numbers inside the function, or switch them off");
    return true;
  }

  /// Two sweeps from every output: they must not throw, and must agree to the last bit.
  bool sweeps_work() {
    set_random_state({options_.seed, 0});
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      const Tensor gradient(core::random_normal(outputs_[k].shape(), float64));
      Tensors first, second;
      try {
        first = pull_back(problem_, outputs_[k], gradient);
        second = pull_back(problem_, outputs_[k], gradient);
      } catch (const Error& error) {
        const std::string text = error.what();
        const bool shape = text.find("input's shape") != std::string::npos;
        return fail(shape ? Fault::shape : Fault::threw, text);
      }
      for (std::size_t i = 0; i < first.size(); ++i)
        if (first[i].defined() && !same_bits(first[i].to_vector<double>(), second[i].to_vector<double>()))
          return fail(Fault::not_repeatable,
                      "the gradient of " + problem_.targets[i].name + " differs between two sweeps over the same tape");
    }
    return true;
  }

  void compare(const JacobianBlock& block) {
    blocks_.push_back(std::make_unique<JacobianBlock>(block));
    if (block.sampled()) report_.seed = options_.seed;
    std::vector<Failure> failures;
    for (std::int64_t row = 0; row < block.rows; ++row)
      for (std::int64_t column = 0; column < block.columns; ++column) {
        const auto at = static_cast<std::size_t>(row * block.columns + column);
        const double difference = std::abs(block.analytic[at] - block.numeric[at]);
        const double tolerance = options_.atol + options_.rtol * std::abs(block.numeric[at]);
        ++report_.compared;
        if (!(difference <= report_.max_error_) && !std::isnan(report_.max_error_)) report_.max_error_ = difference;
        if (difference <= tolerance && std::isfinite(difference)) continue;
        const double excess = std::isfinite(difference) ? difference / tolerance : INFINITY;
        failures.push_back({blocks_.back().get(), row, column, excess});
      }
    report_.failed += static_cast<std::int64_t>(failures.size());
    std::stable_sort(failures.begin(), failures.end(), worse);
    for (std::size_t i = 0; i < std::min(failures.size(), static_cast<std::size_t>(options_.rows)); ++i)
      report_.rows.push_back(row_of(failures[i]));
    failures_.insert(failures_.end(), failures.begin(), failures.end());
  }

  static bool worse(const Failure& a, const Failure& b) { return a.excess > b.excess; }

  GradcheckRow row_of(const Failure& failure) const {
    const JacobianBlock& block = *failure.block;
    const auto at = static_cast<std::size_t>(failure.row * block.columns + failure.column);
    GradcheckRow row;
    row.input = block.input;
    row.input_name = problem_.targets[static_cast<std::size_t>(block.input)].name;
    row.output = block.output;
    const std::string direction = "direction " + std::to_string(failure.row);
    row.element = block.sampled() ? direction : element_name(leaf(block).shape(), failure.column);
    row.output_element = block.sampled()
                             ? direction
                             : element_name(outputs_[static_cast<std::size_t>(block.output)].shape(), failure.row);
    row.analytic = block.analytic[at];
    row.numeric = block.numeric[at];
    row.difference = std::abs(row.analytic - row.numeric);
    row.relative = row.difference / std::max(std::abs(row.analytic), std::abs(row.numeric));
    row.tolerance = options_.atol + options_.rtol * std::abs(row.numeric);
    return row;
  }

  void classify() {
    std::stable_sort(failures_.begin(), failures_.end(), worse);
    std::stable_sort(report_.rows.begin(), report_.rows.end(), [](const GradcheckRow& a, const GradcheckRow& b) {
      const auto excess = [](const GradcheckRow& row) {
        return std::isfinite(row.difference) ? row.difference / row.tolerance : INFINITY;
      };
      return excess(a) > excess(b);
    });
    const JacobianBlock& worst = *failures_.front().block;
    if (std::isinf(failures_.front().excess)) {
      fail(Fault::non_finite, "a value is not finite");
    } else if (std::all_of(failures_.begin(), failures_.end(), [](auto& f) { return f.block->gradient_missing; })) {
      fail(Fault::missing_gradient, "no gradient arrives at " + report_.rows.front().input_name +
                                        ", though the output depends on it; is it detached, or left undefined?");
    } else if (const std::size_t kinks = count_kinks(); kinks == std::min(failures_.size(), kMostKinks)) {
      fail(Fault::kink,
           "the differences to the left and to the right disagree, so there is no derivative; move the "
           "inputs away from the kink");
    } else {
      fail(Fault::value, kinks ? std::to_string(kinks) + " of the elements look like kinks" : "");
      report_.hint =
          hint_for(worst, leaf(worst).shape(), outputs_[static_cast<std::size_t>(worst.output)].shape(), options_);
    }
  }

  std::size_t count_kinks() const {
    const std::size_t looked_at = std::min(failures_.size(), kMostKinks);
    return static_cast<std::size_t>(std::count_if(failures_.begin(), failures_.begin() + static_cast<long>(looked_at),
                                                  [&](const Failure& failure) { return is_kink(failure); }));
  }

  /// At a kink the slopes to the left and to the right differ by a jump that a longer step keeps, where a smooth
  /// function's would grow with the step; and the analytic value lies between them.
  bool is_kink(const Failure& failure) const {
    const auto slopes = [&](double step) {
      return one_sided(problem_, *failure.block, failure.row, failure.column, step);
    };
    const auto [left, right] = slopes(options_.eps);
    const auto [far_left, far_right] = slopes(4 * options_.eps);
    const double jump = std::abs(right - left);
    const double scale = std::max(std::abs(left), std::abs(right));
    const double slack = 1e-2 * scale + options_.atol;
    const double analytic =
        failure.block->analytic[static_cast<std::size_t>(failure.row * failure.block->columns + failure.column)];
    const bool between = analytic >= std::min(left, right) - slack && analytic <= std::max(left, right) + slack;
    return jump > slack && std::abs(far_right - far_left) < 2.5 * jump && between;
  }

  Problem problem_;
  GradcheckOptions options_;
  Tensors outputs_;
  GradcheckReport report_;
  std::vector<std::unique_ptr<JacobianBlock>> blocks_;
  std::vector<Failure> failures_;
};

void check_float64(const std::string& name, const Tensor& tensor) {
  if (tensor.dtype() != float64)
    throw DtypeError("gradcheck: " + name + " must be float64, because " + std::string(name_of(tensor.dtype())) +
                     " can't carry central differences; got " + std::string(name_of(tensor.dtype())) +
                     "; convert it with .to(tapegrad::float64)");
}

bool is_moved(const Tensor& tensor) { return tensor.defined() && is_floating(tensor.dtype()); }

GradcheckReport check(Problem problem, const GradcheckOptions& options) {
  if (problem.targets.empty())
    throw ValueError("gradcheck: expected at least one floating tensor to differentiate with respect to; got none");
  if (!(options.eps > 0) || options.directions < 1 || options.rows < 1)
    throw ValueError("gradcheck: eps, directions and rows must be positive");
  return Check(std::move(problem), options).run();
}

GradcheckReport check_function(const Function& function, const Tensors& inputs, const std::vector<std::string>& names,
                               const GradcheckOptions& options) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_moved(inputs[i])) check_float64(names[i], inputs[i]);
  Problem problem;
  Tensors arguments = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_moved(inputs[i])) continue;
    arguments[i] = inputs[i].detach();
    arguments[i].requires_grad_();
    problem.targets.push_back({names[i], arguments[i]});
  }
  problem.evaluate = [&function, arguments] { return function(arguments); };
  return check(std::move(problem), options);
}

std::vector<std::string> numbered(const std::string& word, std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(word + " " + std::to_string(i));
  return names;
}

}  // namespace

GradcheckReport gradcheck(const Function& function, const Tensors& inputs, const GradcheckOptions& options) {
  const StateGuard guard(inputs);
  return check_function(function, inputs, numbered("input", inputs.size()), options);
}

GradcheckReport gradcheck(const std::function<Tensor()>& function, const NamedTensors& parameters,
                          const GradcheckOptions& options) {
  Tensors tensors;
  for (const auto& [name, tensor] : parameters) tensors.push_back(tensor);
  const StateGuard guard(tensors);
  Problem problem;
  for (const auto& [name, tensor] : parameters) {
    if (!is_moved(tensor)) continue;
    check_float64("parameter " + name, tensor);
    if (!tensor.is_leaf())
      throw GradError("gradcheck: parameter " + name + " must be a leaf; got the result of " +
                      tensor.body()->entry->name());
    problem.targets.push_back({name, tensor});
  }
  for (const Target& target : problem.targets) target.leaf.body()->requires_grad = true;
  problem.evaluate = [&function] { return Tensors{function()}; };
  return check(std::move(problem), options);
}

GradcheckReport gradgradcheck(const Function& function, const Tensors& inputs, const GradcheckOptions& options) {
  const StateGuard guard(inputs);
  const std::size_t count = inputs.size();
  Tensors arguments = inputs;
  std::vector<std::string> names = numbered("input", count);
  const Tensors values = function(inputs);
  set_random_state({options.seed, 0});
  for (const Tensor& output : values) {
    if (!is_moved(output)) continue;
    check_float64("the function's output", output);
    names.push_back("the gradient of output " + std::to_string(arguments.size() - count));
    arguments.push_back(Tensor(core::random_normal(output.shape(), float64)));
  }
  const auto gradients = [&function, count](const Tensors& given) {
    Tensors outputs, seeds, leaves;
    const Tensors all = function(Tensors(given.begin(), given.begin() + static_cast<long>(count)));
    std::size_t next = count;
    for (const Tensor& output : all) {
      if (!is_moved(output)) continue;
      if (output.requires_grad()) {
        outputs.push_back(output);
        seeds.push_back(given[next]);
      }
      ++next;
    }
    for (std::size_t i = 0; i < count; ++i)
      if (is_moved(given[i])) leaves.push_back(given[i]);
    Tensors result(leaves.size());
    if (!outputs.empty())
      result = grad(outputs, leaves, {.grad_outputs = seeds, .create_graph = true, .allow_unused = true});
    for (std::size_t i = 0; i < result.size(); ++i)
      if (!result[i].defined()) result[i] = zeros_like(leaves[i]);
    return result;
  };
  return check_function(gradients, arguments, names, options);
}

}  // namespace tapegrad::autograd
