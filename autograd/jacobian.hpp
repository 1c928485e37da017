// What a gradient check computes with: a function at moved inputs, and blocks of its Jacobian. Private to the library.
#pragma once
#include <tapegrad/autograd/gradcheck.hpp>

namespace tapegrad::autograd {

/// A leaf that a check moves and differentiates with respect to.
struct Target {
  std::string name;
  Tensor leaf;
};

/// A function of its targets.
struct Problem {
  std::vector<Target> targets;
  std::function<Tensors()> evaluate;
  std::vector<Shape> shapes;  // of the floating outputs, once they are known
};

using Values = std::vector<double>;

/// The Jacobian of one output by one input, [rows, columns], twice: by the tape and by central differences. With
/// directions, row d is w_d^T J u_d instead, and there is one column.
struct JacobianBlock {
  std::size_t input = 0;
  std::size_t output = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  Values analytic = {};
  Values numeric = {};
  bool gradient_missing = false;
  std::vector<Values> input_directions = {};   // u_d; empty in the full mode
  std::vector<Values> output_directions = {};  // w_d
  bool sampled() const { return !input_directions.empty(); }
};

/// All floating outputs; ValueError if there is none, DtypeError unless float64, ShapeError unless of the known shapes.
Tensors evaluate_checked(const Problem& problem);
/// The gradients of all targets, given that of one output. Undefined where the output doesn't depend on the target.
Tensors pull_back(const Problem& problem, const Tensor& output, const Tensor& gradient);
/// The outputs' elements when `target` is moved by `step` times `direction`.
std::vector<Values> evaluate_moved(const Problem& problem, std::size_t target, const Values& direction, double step);
/// Every block for these outputs, both ways.
std::vector<JacobianBlock> jacobian_blocks(const Problem& problem, const Tensors& outputs,
                                           const GradcheckOptions& options);
/// The differences to the left and to the right of element `at` of a block.
std::pair<double, double> one_sided(const Problem& problem, const JacobianBlock& block, std::size_t at, double step);

/// A pattern in words that turns `block`'s analytic values into the numeric ones, or "".
std::string hint_for(const JacobianBlock& block, const Shape& input, const Shape& output,
                     const GradcheckOptions& options);
/// "[1, 2]" for the row-major position `index`.
std::string element_name(const Shape& shape, std::size_t index);

}  // namespace tapegrad::autograd
