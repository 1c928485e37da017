#include <tapegrad/autograd/functional.hpp>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/grad.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/autograd/sweep.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad::autograd {
namespace {

/// The inputs as places of their own: leaves, or with `on_tape` views of those that are on the tape.
Tensors own_places(const Tensors& inputs, bool on_tape) {
  Tensors places;
  for (const Tensor& input : inputs) {
    if (!is_floating(input.dtype()))
      places.push_back(input.detach());
    else if (on_tape && input.requires_grad())
      places.push_back(reshape(input, input.shape()));
    else
      places.push_back(input.detach().requires_grad_());
  }
  return places;
}

Tensors detached(const Tensors& tensors) {
  Tensors list;
  for (const Tensor& tensor : tensors) list.push_back(tensor.defined() ? tensor.detach() : tensor);
  return list;
}

/// Zeros where `vectors` are undefined; each must be like the tensor that it stands for.
Tensors completed(const char* operation, const Tensors& vectors, const Tensors& like) {
  if (vectors.size() != like.size())
    throw ValueError(std::string(operation) + ": there must be one vector for each of " + std::to_string(like.size()) +
                     " tensors; got " + std::to_string(vectors.size()) + "; leave some undefined for zeros");
  Tensors list;
  for (std::size_t i = 0; i < like.size(); ++i) {
    if (vectors[i].defined()) check_gradient(operation, like[i], vectors[i], "vector");
    list.push_back(vectors[i].defined() ? vectors[i] : zeros_like(like[i].detach()));
  }
  return list;
}

/// d(outputs . vectors)/d(inputs), zeros where there is no path, undefined for integers. Keeps the graph.
Tensors pulled_back(const Tensors& outputs, const Tensors& inputs, const Tensors& vectors, bool create_graph) {
  Tensors from, seeds, to;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].defined() || !outputs[k].requires_grad()) continue;
    from.push_back(outputs[k]);
    seeds.push_back(vectors[k]);
  }
  for (const Tensor& input : inputs)
    if (is_floating(input.dtype())) to.push_back(input);
  Tensors found(to.size());
  if (!from.empty())
    found = grad(from, to,
                 {.grad_outputs = seeds, .retain_graph = true, .create_graph = create_graph, .allow_unused = true});
  Tensors list;
  std::size_t next = 0;
  for (const Tensor& input : inputs) {
    Tensor gradient = is_floating(input.dtype()) ? found[next++] : Tensor();
    if (is_floating(input.dtype()) && !gradient.defined()) gradient = zeros_like(input.detach());
    list.push_back(std::move(gradient));
  }
  return list;
}

Shape joined(Shape shape, const Shape& behind) {
  for (const std::int64_t size : behind) shape.push_back(size);
  return shape;
}

/// One at row-major position `index`, zeros elsewhere.
Tensor unit_like(const Tensor& tensor, std::int64_t index) {
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
  values[static_cast<std::size_t>(index)] = 1;
  return from_vector(values, tensor.shape(), tensor.dtype());
}

/// d(output)/d(input) for each input, one row of each for each element of the output.
Tensors jacobian_of(const Tensor& output, const Tensors& inputs, bool create_graph) {
  std::vector<Tensors> rows(inputs.size());
  for (std::int64_t row = 0; row < output.numel(); ++row) {
    Tensors gradients = pulled_back({output}, inputs, {unit_like(output, row)}, create_graph);
    for (std::size_t i = 0; i < inputs.size(); ++i) rows[i].push_back(std::move(gradients[i]));
  }
  Tensors blocks;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape shape = joined(output.shape(), inputs[i].shape());
    if (!is_floating(inputs[i].dtype()))
      blocks.push_back({});
    else
      blocks.push_back(rows[i].empty() ? zeros(shape, inputs[i].dtype()) : reshape(stack(rows[i], 0), shape));
  }
  return blocks;
}

/// The only output, of one element.
Tensor scalar_of(const char* operation, const Tensors& outputs) {
  if (outputs.size() != 1)
    throw ValueError(std::string(operation) + ": the function must return one tensor; got " +
                     std::to_string(outputs.size()));
  if (outputs[0].numel() != 1)
    throw ShapeError(std::string(operation) + ": the function must return one element; got shape " +
                     outputs[0].shape().to_string() + "; reduce it with sum() or mean()");
  return outputs[0];
}

Function of_one(const std::function<Tensor(const Tensor&)>& function) {
  check_function("Function", function);
  return [function](const Tensors& in) { return function(in[0]); };
}

}  // namespace

Product vjp(const Function& function, const Tensors& inputs, const Tensors& vectors) {
  const GradModeGuard recorded(true);
  const Tensors places = own_places(inputs, false), outputs = function(places);
  const Tensors seeds = completed("vjp", vectors, outputs);
  return {detached(outputs), detached(pulled_back(outputs, places, seeds, false))};
}

Product jvp(const Function& function, const Tensors& inputs, const Tensors& vectors) {
  const GradModeGuard recorded(true);
  const Tensors places = own_places(inputs, false), directions = completed("jvp", vectors, places);
  const Tensors outputs = function(places);
  Tensors weights;  // the gradients are linear in them, so any value does but 0, which poles are left out for
  for (const Tensor& output : outputs) {
    weights.push_back(ones_like(output.detach()));
    if (is_floating(output.dtype())) weights.back().requires_grad_();
  }
  const Tensors gradients = pulled_back(outputs, places, weights, true);
  return {detached(outputs), detached(pulled_back(gradients, weights, directions, false))};
}

std::vector<Tensors> jacobian(const Function& function, const Tensors& inputs, const JacobianOptions& options) {
  const GradModeGuard recorded(true);
  const Tensors places = own_places(inputs, options.create_graph);
  std::vector<Tensors> blocks;
  for (const Tensor& output : function(places)) {
    const Tensors row = jacobian_of(output, places, options.create_graph);
    blocks.push_back(options.create_graph ? row : detached(row));
  }
  return blocks;
}

Tensor jacobian(const std::function<Tensor(const Tensor&)>& function, const Tensor& input,
                const JacobianOptions& options) {
  return jacobian(of_one(function), Tensors{input}, options)[0][0];
}

std::vector<Tensors> hessian(const Function& function, const Tensors& inputs, const JacobianOptions& options) {
  const GradModeGuard recorded(true);
  const Tensors places = own_places(inputs, options.create_graph);
  const Tensor output = scalar_of("hessian", function(places));
  std::vector<Tensors> blocks;
  for (const Tensor& gradient : pulled_back({output}, places, {ones_like(output.detach())}, true)) {
    const Tensors row =
        gradient.defined() ? jacobian_of(gradient, places, options.create_graph) : Tensors(inputs.size());
    blocks.push_back(options.create_graph ? row : detached(row));
  }
  return blocks;
}

Tensor hessian(const std::function<Tensor(const Tensor&)>& function, const Tensor& input,
               const JacobianOptions& options) {
  return hessian(of_one(function), Tensors{input}, options)[0][0];
}

Product hvp(const Function& function, const Tensors& inputs, const Tensors& vectors) {
  const GradModeGuard recorded(true);
  const Tensors places = own_places(inputs, false), directions = completed("hvp", vectors, places);
  const Tensor output = scalar_of("hvp", function(places));
  const Tensors gradients = pulled_back({output}, places, {ones_like(output.detach())}, true);
  return {detached({output}), detached(pulled_back(gradients, places, directions, false))};
}

Tensor hvp(const std::function<Tensor(const Tensor&)>& function, const Tensor& input, const Tensor& vector) {
  return hvp(of_one(function), Tensors{input}, Tensors{vector}).products[0];
}

}  // namespace tapegrad::autograd
