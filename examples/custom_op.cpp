// An operation of your own: its value by an xtensor expression, its gradient beside it, and the checks that hold both
// together. logaddexp(a, b) = log(exp(a) + exp(b)) adds probabilities that are kept as logarithms.
#include <cmath>
#include <tapegrad/tapegrad.hpp>
#include <tapegrad/xtensor.hpp>

#include "arguments.hpp"

namespace tg = tapegrad;
using tg::autograd::gradcheck;
using tg::autograd::gradgradcheck;

// Of float64 tensors that broadcast. The larger exponent is taken out, so nothing overflows. d/da = exp(a - result) and
// d/db = exp(b - result): the closure must not keep its own result alive, so it is handed to it.
tg::Tensor logaddexp(const tg::Tensor& a, const tg::Tensor& b) {
  const auto x = tg::as_xtensor<double>(a), y = tg::as_xtensor<double>(b);
  const tg::Tensor value = tg::from_xtensor(xt::maximum(x, y) + xt::log1p(xt::exp(-xt::abs(x - y))));
  return tg::autograd::record("logaddexp", value, {a, b}, [a, b](const tg::Tensor& g, const tg::Tensor& result) {
    return tg::Tensors{g * tg::exp(a - result), g * tg::exp(b - result)};
  });
}

// The same with a slip of the pen in the second gradient.
tg::Tensor slipped(const tg::Tensor& a, const tg::Tensor& b) {
  const tg::Tensor value = logaddexp(a, b).detach();
  return tg::autograd::record("slipped", value, {a, b}, [a, b](const tg::Tensor& g, const tg::Tensor& result) {
    return tg::Tensors{g * tg::exp(a - result), g * tg::exp(result - b)};
  });
}

bool check() {
  tg::manual_seed(5);
  fmt::print("without overflow: logaddexp(1000, 1000) - 1000 = {:.6f}, log 2 = {:.6f}\n\n",
             logaddexp(tg::tensor({1000.0}, tg::float64), tg::tensor({1000.0}, tg::float64)).item() - 1000,
             std::log(2.0));

  // A gradient has the shape of its input: the engine sums over what was broadcast.
  const tg::Tensors inputs = {tg::randn({3, 4}, tg::float64), tg::randn({4}, tg::float64)};
  const auto f = [](const tg::Tensors& in) { return logaddexp(in[0], in[1]); };
  const auto first = gradcheck(f, inputs), second = gradgradcheck(f, inputs);
  fmt::print("gradients:              {}\n", first);
  fmt::print("gradients of gradients: {}\n\n", second);

  const auto caught = gradcheck([](const tg::Tensors& in) { return slipped(in[0], in[1]); }, inputs, {.rows = 2});
  fmt::print("the same with a slip of the pen:\n{}\n\n", caught);

  // Folded over a vector it is logsumexp, whose gradient is softmax.
  const tg::Tensor x = tg::randn({6}, tg::float64).requires_grad_();
  tg::Tensor total = x.select(0, 0);
  for (std::int64_t i = 1; i < x.size(0); ++i) total = logaddexp(total, x.select(0, i));
  total.backward();
  fmt::print("folded over a vector:  {:.6f}, logsumexp: {:.6f}\n", total.item(), tg::logsumexp(x, 0).item());
  fmt::print("gradient of the fold:  {}\nsoftmax of the vector: {}\n", x.grad(), tg::softmax(x.detach(), 0));
  return first && second && !caught && tg::allclose(x.grad(), tg::softmax(x.detach(), 0));
}

int main(int argc, char** argv) {
  return arguments::Program("custom_op", "Defines an operation and checks its gradients").run(argc, argv, check);
}
