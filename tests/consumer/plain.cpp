// A user who knows nothing of xtensor: a few steps of gradient descent.
#include <tapegrad/tapegrad.hpp>
#include <tapegrad/version.hpp>

namespace tg = tapegrad;

int main() {
  tg::Tensor x = tg::tensor({4.0, -2.0}, tg::float64);
  for (int step = 0; step < 100; ++step) {
    tg::Tensor point = x.detach().requires_grad_();
    (point * point).sum().backward();
    x = x - 0.1 * point.grad();
  }
  fmt::print("tapegrad {}: {}\n", TAPEGRAD_VERSION, x);
  return tg::allclose(x, tg::zeros({2}, tg::float64), 0, 1e-6) ? 0 : 1;
}
