#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/grad.hpp>
#include <tapegrad/autograd/jacobian.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad::autograd {
namespace {

/// At most this many failing elements are looked at from both sides: each costs several evaluations.
constexpr std::size_t kMostKinks = 32;

/// Puts back what a check, or the function that it calls, might change; also when the function throws.
class StateGuard {
 public:
  explicit StateGuard(const Tensors& tensors) {
    for (const Tensor& tensor : tensors)
      if (tensor.defined()) leaves_.push_back({tensor, tensor.grad(), tensor.body()->requires_grad});
  }
  ~StateGuard() {
    for (const auto& [tensor, gradient, requires_grad] : leaves_) {
      tensor.body()->grad = gradient;
      tensor.body()->requires_grad = requires_grad;
    }
    set_random_state(random_);
  }

 private:
  struct Leaf {
    Tensor tensor, gradient;
    bool requires_grad;
  };
  std::vector<Leaf> leaves_;
  GradModeGuard mode_{true};
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
    blocks_ = jacobian_blocks(problem_, outputs_, options_);
    for (const JacobianBlock& block : blocks_) compare(block);
    if (failures_.empty()) return report_;
    fill_rows();
    classify();
    return report_;
  }

 private:
  struct Failure {
    const JacobianBlock* block;
    std::size_t at;
    double excess;  // difference / tolerance; infinite for NaN
  };

  const Shape& input_shape(const JacobianBlock& block) const { return problem_.targets[block.input].leaf.shape(); }

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
        return fail(text.find("input's shape") != std::string::npos ? Fault::shape : Fault::threw, text);
      }
      for (std::size_t i = 0; i < first.size(); ++i)
        if (first[i].defined() && !same_bits(first[i].to_vector<double>(), second[i].to_vector<double>()))
          return fail(Fault::not_repeatable,
                      "the gradient of " + problem_.targets[i].name + " differs between two sweeps over the same tape");
    }
    return true;
  }

  void compare(const JacobianBlock& block) {
    if (block.sampled()) report_.seed = options_.seed;
    for (std::size_t at = 0; at < block.numeric.size(); ++at) {
      const double difference = std::abs(block.analytic[at] - block.numeric[at]);
      const double tolerance = options_.atol + options_.rtol * std::abs(block.numeric[at]);
      ++report_.compared;
      if (!(difference <= report_.max_error_) && !std::isnan(report_.max_error_)) report_.max_error_ = difference;
      if (difference <= tolerance && std::isfinite(difference)) continue;
      failures_.push_back({&block, at, std::isfinite(difference) ? difference / tolerance : INFINITY});
    }
  }

  /// The worst failures of each block, the worst of all first.
  void fill_rows() {
    report_.failed = static_cast<std::int64_t>(failures_.size());
    std::stable_sort(failures_.begin(), failures_.end(),
                     [](const Failure& a, const Failure& b) { return a.excess > b.excess; });
    std::map<const JacobianBlock*, int> shown;
    for (const Failure& failure : failures_)
      if (shown[failure.block]++ < options_.rows) report_.rows.push_back(row_of(failure));
  }

  GradcheckRow row_of(const Failure& failure) const {
    const JacobianBlock& block = *failure.block;
    const std::size_t at = failure.at, line = at / block.columns, column = at % block.columns;
    const std::string direction = "direction " + std::to_string(line);
    const double analytic = block.analytic[at], numeric = block.numeric[at], difference = std::abs(analytic - numeric);
    return {.input = static_cast<int>(block.input),
            .input_name = problem_.targets[block.input].name,
            .element = block.sampled() ? direction : element_name(input_shape(block), column),
            .output = static_cast<int>(block.output),
            .output_element = block.sampled() ? direction : element_name(outputs_[block.output].shape(), line),
            .analytic = analytic,
            .numeric = numeric,
            .difference = difference,
            .relative = difference / std::max(std::abs(analytic), std::abs(numeric)),
            .tolerance = options_.atol + options_.rtol * std::abs(numeric)};
  }

  void classify() {
    if (std::isinf(failures_.front().excess)) {
      fail(Fault::non_finite, "a value is not finite");
    } else if (std::all_of(failures_.begin(), failures_.end(), [](auto& f) { return f.block->gradient_missing; })) {
      fail(Fault::missing_gradient, "no gradient arrives at " + report_.rows.front().input_name +
                                        ", though the output depends on it; is it detached, or left undefined?");
    } else {
      const auto looked_at = failures_.begin() + static_cast<long>(std::min(failures_.size(), kMostKinks));
      const auto kinks = std::count_if(failures_.begin(), looked_at, [this](auto& f) { return is_kink(f); });
      if (kinks == looked_at - failures_.begin()) {
        fail(Fault::kink,
             "the differences to the left and to the right disagree, so there is no derivative; move the "
             "inputs away from the kink");
      } else {
        fail(Fault::value, kinks ? std::to_string(kinks) + " of the elements look like kinks" : "");
        const JacobianBlock& worst = *failures_.front().block;
        report_.hint = hint_for(worst, input_shape(worst), outputs_[worst.output].shape(), options_);
      }
    }
  }

  /// At a kink the slopes to the left and to the right differ by a jump that a longer step keeps, where a smooth
  /// function's would grow with the step; and the analytic value lies between them.
  bool is_kink(const Failure& failure) const {
    const auto [left, right] = one_sided(problem_, *failure.block, failure.at, options_.eps);
    const auto [far_left, far_right] = one_sided(problem_, *failure.block, failure.at, 4 * options_.eps);
    const double jump = std::abs(right - left);
    const double slack = 1e-2 * std::max(std::abs(left), std::abs(right)) + options_.atol;
    const double analytic = failure.block->analytic[failure.at];
    const bool between = analytic >= std::min(left, right) - slack && analytic <= std::max(left, right) + slack;
    return jump > slack && std::abs(far_right - far_left) < 2.5 * jump && between;
  }

  Problem problem_;
  GradcheckOptions options_;
  Tensors outputs_;
  GradcheckReport report_;
  std::vector<JacobianBlock> blocks_;
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
  Problem problem;
  Tensors arguments = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_moved(inputs[i])) continue;
    check_float64(names[i], inputs[i]);
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
  check_function("gradcheck", function);
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
    std::size_t next = count;
    for (const Tensor& output : function(Tensors(given.begin(), given.begin() + static_cast<long>(count)))) {
      if (!is_moved(output)) continue;
      const Tensor& seed = given[next++];
      if (!output.requires_grad()) continue;
      outputs.push_back(output);
      seeds.push_back(seed);
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
