#include <algorithm>
#include <numeric>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/grad.hpp>
#include <tapegrad/autograd/jacobian.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad::autograd {
namespace {

Tensor tensor_of(const Values& values, const Shape& shape) { return from_vector(values, shape, float64); }
std::size_t elements(const Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

/// These values, row-major, in fresh memory whose axes are ordered as those of `like` are: a transposed input stays
/// one.
core::Array in_layout_of(const core::Array& like, const Values& values) {
  Shape order = like.shape(), back = order;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return like.strides()[a] > like.strides()[b]; });
  for (int i = 0; i < order.rank(); ++i) back[static_cast<int>(order[i])] = i;
  const core::Array array = like.permuted(order).copy().permuted(back);
  core::copy_into(array, tensor_of(values, like.shape()).array());
  return array;
}

/// Gives `leaf` another value while it lives. The former value is put back untouched, whatever happens in between.
class Moved {
 public:
  Moved(const Tensor& leaf, const Values& values) : leaf_(leaf), before_(leaf.body()->array) {
    leaf_.body()->array = in_layout_of(before_, values);
  }
  ~Moved() { leaf_.body()->array = before_; }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

 private:
  Tensor leaf_;
  core::Array before_;
};

Values unit(std::size_t size, std::size_t index) {
  Values values(size);
  values[index] = 1;
  return values;
}

double dot(const Values& a, const Values& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

Values difference(const Values& a, const Values& b, double divisor) {
  Values result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = (a[i] - b[i]) / divisor;
  return result;
}

Values random_values(const Shape& shape) { return Tensor(core::random_normal(shape, float64)).to_vector<double>(); }

/// The distance that an element really moves, which rounding makes a little different from `step`.
double real_step(double value, double step) {
  const volatile double above = value + step, below = value - step;
  return above - below;
}

std::string changed_shape(std::size_t output) {
  return "gradcheck: the function must return outputs of the same shapes in every call; output " +
         std::to_string(output) + " changed";
}

/// Where d(output `k`)/d(target `i`) will be written.
JacobianBlock blank_block(const Problem& problem, const Tensors& outputs, std::size_t i, std::size_t k,
                          const GradcheckOptions& options) {
  const Tensor &from = problem.targets[i].leaf, &to = outputs[k];
  JacobianBlock block{.input = i, .output = k, .rows = elements(to), .columns = elements(from)};
  if (to.numel() * from.numel() > options.max_jacobian) {
    for (int d = 0; d < options.directions; ++d) {
      block.input_directions.push_back(random_values(from.shape()));
      block.output_directions.push_back(random_values(to.shape()));
    }
    block.rows = block.input_directions.size();
    block.columns = 1;
  }
  block.analytic.resize(block.rows * block.columns);
  block.numeric.resize(block.analytic.size());
  return block;
}

using Blocks = std::vector<JacobianBlock*>;

/// The blocks without directions whose `side`, input or output, is number `index`.
Blocks full_blocks(std::vector<JacobianBlock>& blocks, std::size_t JacobianBlock::*side, std::size_t index) {
  Blocks full;
  for (JacobianBlock& block : blocks)
    if (!block.sampled() && block.*side == index) full.push_back(&block);
  return full;
}

/// The tape's side of full blocks: one sweep for each element of their output, for all inputs together.
void pull_back_rows(const Problem& problem, const Tensor& output, const Blocks& full) {
  for (std::size_t row = 0; row < elements(output) && !full.empty(); ++row) {
    const Tensors gradients = pull_back(problem, output, tensor_of(unit(elements(output), row), output.shape()));
    for (JacobianBlock* block : full) {
      const Tensor& gradient = gradients[block->input];
      block->gradient_missing = !gradient.defined();
      if (!gradient.defined()) continue;
      const Values values = gradient.to_vector<double>();
      std::copy(values.begin(), values.end(), block->analytic.data() + row * block->columns);
    }
  }
}

/// The numeric side: two evaluations for each element of target `i`, for all outputs together.
void move_columns(const Problem& problem, std::size_t i, const Blocks& full, double eps) {
  const Values base = problem.targets[i].leaf.to_vector<double>();
  for (std::size_t column = 0; column < base.size() && !full.empty(); ++column) {
    const Values direction = unit(base.size(), column);
    const auto above = evaluate_moved(problem, i, direction, eps);
    const auto below = evaluate_moved(problem, i, direction, -eps);
    const double step = real_step(base[column], eps);
    for (JacobianBlock* block : full) {
      const Values slope = difference(above[block->output], below[block->output], step);
      for (std::size_t row = 0; row < block->rows; ++row) block->numeric[row * block->columns + column] = slope[row];
    }
  }
}

/// Both sides of a block with directions.
void sample(const Problem& problem, const Tensor& output, JacobianBlock& block, double eps) {
  for (std::size_t d = 0; d < block.rows; ++d) {
    const Values &u = block.input_directions[d], &w = block.output_directions[d];
    const Tensor gradient = pull_back(problem, output, tensor_of(w, output.shape()))[block.input];
    block.gradient_missing = !gradient.defined();
    if (gradient.defined()) block.analytic[d] = dot(gradient.to_vector<double>(), u);
    const Values above = evaluate_moved(problem, block.input, u, eps)[block.output];
    const Values below = evaluate_moved(problem, block.input, u, -eps)[block.output];
    block.numeric[d] = dot(difference(above, below, 2 * eps), w);
  }
}

}  // namespace

Tensors evaluate_checked(const Problem& problem) {
  Tensors outputs;
  for (const Tensor& output : problem.evaluate()) {
    if (!output.defined() || !is_floating(output.dtype())) continue;
    if (output.dtype() != float64)
      throw DtypeError("gradcheck: output " + std::to_string(outputs.size()) +
                       " must be float64, because float32 can't carry central differences; got float32; let the "
                       "function keep the dtype of its inputs");
    const bool known = problem.shapes.empty() ||
                       (outputs.size() < problem.shapes.size() && output.shape() == problem.shapes[outputs.size()]);
    if (!known) throw ShapeError(changed_shape(outputs.size()));
    outputs.push_back(output);
  }
  if (outputs.size() < problem.shapes.size()) throw ShapeError(changed_shape(outputs.size()));
  if (outputs.empty())
    throw ValueError(
        "gradcheck: the function must return at least one float64 tensor; got none; check a function whose "
        "result has a gradient");
  return outputs;
}

Tensors pull_back(const Problem& problem, const Tensor& output, const Tensor& gradient) {
  if (!output.requires_grad()) return Tensors(problem.targets.size());
  Tensors leaves;
  for (const Target& target : problem.targets) leaves.push_back(target.leaf);
  return grad({output}, leaves, {.grad_outputs = {gradient}, .retain_graph = true, .allow_unused = true});
}

std::vector<Values> evaluate_moved(const Problem& problem, std::size_t target, const Values& direction, double step) {
  const Tensor& leaf = problem.targets[target].leaf;
  Values values = leaf.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (direction[i] != 0) values[i] += step * direction[i];
  const Moved moved(leaf, values);
  std::vector<Values> result;
  for (const Tensor& output : evaluate_checked(problem)) result.push_back(output.to_vector<double>());
  return result;
}

std::vector<JacobianBlock> jacobian_blocks(const Problem& problem, const Tensors& outputs,
                                           const GradcheckOptions& options) {
  const RandomState before = random_state();
  set_random_state({options.seed, 0});
  std::vector<JacobianBlock> blocks;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    for (std::size_t i = 0; i < problem.targets.size(); ++i)
      blocks.push_back(blank_block(problem, outputs, i, k, options));
  set_random_state(before);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    pull_back_rows(problem, outputs[k], full_blocks(blocks, &JacobianBlock::output, k));
  for (std::size_t i = 0; i < problem.targets.size(); ++i)
    move_columns(problem, i, full_blocks(blocks, &JacobianBlock::input, i), options.eps);
  for (JacobianBlock& block : blocks)
    if (block.sampled()) sample(problem, outputs[block.output], block, options.eps);
  return blocks;
}

std::pair<double, double> one_sided(const Problem& problem, const JacobianBlock& block, std::size_t at, double step) {
  const std::size_t k = block.output, row = at / block.columns;
  const Values u = block.sampled() ? block.input_directions[row] : unit(block.columns, at % block.columns);
  const Values w = block.sampled() ? block.output_directions[row] : unit(block.rows, row);
  const Values here = evaluate_moved(problem, block.input, u, 0)[k];
  const Values left = difference(here, evaluate_moved(problem, block.input, u, -step)[k], step);
  const Values right = difference(evaluate_moved(problem, block.input, u, step)[k], here, step);
  return {dot(left, w), dot(right, w)};
}

}  // namespace tapegrad::autograd
