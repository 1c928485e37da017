// The kernels as a compiler without -march=native makes them, which is what a sub-project gets: fused operations
// against the plain compositions, values and gradients.
#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;

namespace {

using Function = std::function<tg::Tensor(const tg::Tensors&)>;

bool agree(const char* what, const tg::Tensors& inputs, const Function& fused, const Function& plain) {
  const tg::Tensor a = fused(inputs), b = plain(inputs), g = tg::randn(a.shape(), a.dtype());
  const tg::Tensors da = tg::autograd::grad({a}, inputs, {.grad_outputs = {g}});
  const tg::Tensors db = tg::autograd::grad({b}, inputs, {.grad_outputs = {g}});
  const double tolerance = a.dtype() == tg::float64 ? 1e-11 : 1e-4;
  bool same = tg::allclose(a, b, tolerance, tolerance);
  for (std::size_t i = 0; i < inputs.size(); ++i) same = same && tg::allclose(da[i], db[i], tolerance, tolerance);
  if (!same) fmt::print("{} in {}: the paths differ\n", what, tg::name_of(a.dtype()));
  return same;
}

bool all_agree(tg::Dtype dtype) {
  const auto leaf = [&](const tg::Shape& shape) { return tg::randn(shape, dtype).requires_grad_(); };
  const auto attention = [](bool need_weights) {
    return [=](const tg::Tensors& in) {
      const tg::nn::AttentionOptions options{.is_causal = true, .need_weights = need_weights};
      return tg::nn::scaled_dot_product_attention(in[0], in[1], in[2], options).output;
    };
  };
  bool right = true;
  for (const std::int64_t length : {1, 7, 130, 260})
    right = agree("attention", {leaf({2, length, 33}), leaf({2, length, 33}), leaf({2, length, 20})}, attention(false),
                  attention(true)) &&
            right;
  right = agree(
              "gelu_linear", {leaf({50, 37}), leaf({11, 37}), leaf({11})},
              [](const tg::Tensors& in) { return tg::gelu_linear(in[0], in[1], in[2]); },
              [](const tg::Tensors& in) { return tg::matmul(tg::gelu(in[0]), in[1].transpose(0, 1)) + in[2]; }) &&
          right;
  return agree(
             "softmax", {leaf({9, 37})}, [](const tg::Tensors& in) { return tg::softmax(in[0], -1); },
             [](const tg::Tensors& in) { return tg::exp(in[0]) / tg::exp(in[0]).sum(-1, true); }) &&
         right;
}

}  // namespace

int main() {
  const bool single = all_agree(tg::float32), twice = all_agree(tg::float64);
  return single && twice ? 0 : 1;
}
