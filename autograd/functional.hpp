// Derivatives of functions: Jacobians, Hessians, and their products with vectors.
//
// A function takes tensors and returns one or several: anything that can be called with `const Tensors&`. It is called
// with floating inputs as leaves of their own (the same tensor given twice is two inputs), so nothing that was computed
// before is swept and no grad() changes; integer inputs are passed on, and their derivatives are undefined tensors.
// Results that do not depend on an input have zero derivatives. ShapeError, DtypeError or ValueError if vectors are not
// like what they stand for.
#pragma once
#include <tapegrad/autograd/gradcheck.hpp>

namespace tapegrad::autograd {

/// What a function gives, and the product of its Jacobian with vectors.
struct Product {
  Tensors outputs;   // off the tape
  Tensors products;  // like the inputs (vjp), like the outputs (jvp)
};

/// v^T J: for each input, sum over outputs k of v_k d(output_k)/d(input). `vectors`: one for each output, of its shape;
/// an undefined one counts as zero. One sweep.
Product vjp(const Function& function, const Tensors& inputs, const Tensors& vectors);

/// J u: for each output, sum over inputs i of d(output)/d(input_i) u_i. `vectors`: one for each input, of its shape; an
/// undefined one counts as zero. Two sweeps: v^T J is linear in v, and its derivative by v is J u.
Product jvp(const Function& function, const Tensors& inputs, const Tensors& vectors);

struct JacobianOptions {
  /// Keep the result on the tape, as a function of those inputs that require a gradient. They are then used in their
  /// place on the tape.
  bool create_graph = false;
};

/// [output][input]: d(output)/d(input), of the output's shape followed by the input's. One sweep for each element of
/// the outputs.
std::vector<Tensors> jacobian(const Function& function, const Tensors& inputs, const JacobianOptions& options = {});
/// The same for one input and one output.
Tensor jacobian(const std::function<Tensor(const Tensor&)>& function, const Tensor& input,
                const JacobianOptions& options = {});

/// [i][j]: d2(output)/d(input_i)d(input_j), of the shape of input i followed by that of input j. The function must
/// return one tensor of one element (ShapeError, ValueError).
std::vector<Tensors> hessian(const Function& function, const Tensors& inputs, const JacobianOptions& options = {});
/// The same for one input.
Tensor hessian(const std::function<Tensor(const Tensor&)>& function, const Tensor& input,
               const JacobianOptions& options = {});

/// H u, without the Hessian: for each input i, sum over j of d2(output)/d(input_i)d(input_j) u_j. The function must
/// return one tensor of one element; `vectors`: one for each input, of its shape, undefined ones count as zero. Two
/// sweeps.
Product hvp(const Function& function, const Tensors& inputs, const Tensors& vectors);
/// The product alone, for one input.
Tensor hvp(const std::function<Tensor(const Tensor&)>& function, const Tensor& input, const Tensor& vector);

}  // namespace tapegrad::autograd
