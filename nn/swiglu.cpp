#include <tapegrad/nn/swiglu.hpp>

#include <tapegrad/autograd/elementwise.hpp>

namespace tapegrad::nn {

SwiGLU::SwiGLU(std::int64_t features, std::int64_t hidden, const LinearOptions& options)
    : Module("SwiGLU"),
      gate_proj_((check_sizes({{"features", features}, {"hidden", hidden}}),
                  register_module("gate_proj", Linear(features, hidden, options)))),
      up_proj_(register_module("up_proj", Linear(features, hidden, options))),
      down_proj_(register_module("down_proj", Linear(hidden, features, options))) {}

Tensor SwiGLU::forward(const Operand& x) const {
  const auto here = scope();
  return finished(down_proj_(silu(gate_proj_(x)) * up_proj_(x)));
}

}  // namespace tapegrad::nn
