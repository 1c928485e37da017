// What second derivatives buy. Newton's method takes a Hessian where a whole one is cheap (two unknowns), and its
// products with vectors where it is not (conjugate gradients never look at the matrix), against plain gradient descent.
#include <cmath>
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"

namespace tg = tapegrad;
namespace ag = tapegrad::autograd;
using Objective = std::function<tg::Tensor(const tg::Tensor&)>;

double dot(const tg::Tensor& a, const tg::Tensor& b) { return (a * b).sum().item(); }

tg::Tensor gradient(const Objective& f, const tg::Tensor& at) {
  const tg::Tensor x = at.detach().requires_grad_();
  return ag::grad({f(x)}, {x})[0];
}

// The valley f(x, y) = (1 - x)^2 + 100 (y - x^2)^2 (Rosenbrock, 1960), whose floor is curved, flat and ends at (1, 1).
tg::Tensor rosenbrock(const tg::Tensor& p) {
  const tg::Tensor x = p.select(0, 0), y = p.select(0, 1);
  return tg::square(1 - x) + 100 * tg::square(y - x * x);
}

// d with H d = g, for two unknowns: Cramer's rule.
tg::Tensor solve(const tg::Tensor& hessian, const tg::Tensor& g) {
  const std::vector<double> h = hessian.to_vector<double>(), r = g.to_vector<double>();
  const double determinant = h[0] * h[3] - h[1] * h[2];
  return tg::tensor({(r[0] * h[3] - h[1] * r[1]) / determinant, (h[0] * r[1] - r[0] * h[2]) / determinant},
                    tg::float64);
}

void valley() {
  fmt::print("Rosenbrock's valley from (-1.2, 1)\n");
  const tg::Tensor start = tg::tensor({-1.2, 1.0}, tg::float64);
  tg::Tensor p = start;
  for (int step = 0; step <= 6; ++step) {
    const std::vector<double> at = p.to_vector<double>();
    fmt::print("  Newton {}  f = {:8.2e} at ({:.6f}, {:.6f})\n", step, rosenbrock(p).item(), at[0], at[1]);
    p = p - solve(ag::hessian(rosenbrock, p), gradient(rosenbrock, p));
  }
  tg::Tensor q = start;
  for (int step = 0; step < 10000; ++step) q = q - 1e-3 * gradient(rosenbrock, q);
  fmt::print("  10000 steps of gradient descent  f = {:8.2e}\n", rosenbrock(q).item());
  fmt::print("  Hessian at the end: {}\n\n", ag::hessian(rosenbrock, p));
}

// d with H d = g, H given by its products with vectors alone (Hestenes and Stiefel, 1952).
tg::Tensor conjugate_gradients(const std::function<tg::Tensor(const tg::Tensor&)>& product, const tg::Tensor& g,
                               double tolerance, int& products) {
  tg::Tensor d = tg::zeros_like(g), residual = g, direction = g;
  double square = dot(residual, residual);
  for (const double goal = tolerance * tolerance * square; square > goal; ++products) {
    const tg::Tensor image = product(direction);
    const double along = square / dot(direction, image);
    d = d + along * direction;
    residual = residual - along * image;
    const double next = dot(residual, residual);
    direction = residual + next / square * direction;
    square = next;
  }
  return d;
}

// Logistic regression: labels of +-1, 40 features whose sizes differ by a factor of 30, and a little weight decay.
bool regression() {
  const std::int64_t features = 40, samples = 500;
  const tg::Tensor scales = tg::exp(tg::linspace(0, -std::log(30.0), features, tg::float64));
  const tg::Tensor x = tg::randn({samples, features}, tg::float64) * scales;
  const tg::Tensor noisy =
      tg::matmul(x, tg::randn({features}, tg::float64) / scales) + tg::randn({samples}, tg::float64);
  const tg::Tensor labels = tg::sign(noisy);
  const Objective loss = [&](const tg::Tensor& w) {
    return tg::softplus(-labels * tg::matmul(x, w)).mean() + 1e-4 * tg::square(w).sum();
  };
  const auto size = [&](const tg::Tensor& w) { return tg::norm(gradient(loss, w)).item(); };

  fmt::print("Logistic regression with {} weights\n", features);
  tg::Tensor w = tg::zeros({features}, tg::float64), descent = w;
  int products = 0, sweeps = 0;
  for (int step = 1; step <= 7; ++step) {
    const tg::Tensor g = gradient(loss, w);
    const auto product = [&](const tg::Tensor& v) { return ag::hvp(loss, w, v); };
    w = w - conjugate_gradients(product, g, std::min(0.1, std::sqrt(tg::norm(g).item())), products);
    // As much for gradient descent: a product with the Hessian is two sweeps.
    for (; sweeps < step + 2 * products; ++sweeps) descent = descent - 4.0 * gradient(loss, descent);
    fmt::print("  Newton {}, {:3} products: loss {:.8f} gradient {:.0e} | descent, {:3} sweeps: {:.8f} {:.0e}\n", step,
               products, loss(w).item(), size(w), sweeps, loss(descent).item(), size(descent));
  }
  return size(w) < 1e-9;
}

int main(int argc, char** argv) {
  return arguments::Program("hessian", "Second derivatives against gradient descent").run(argc, argv, [] {
    tg::manual_seed(4);
    valley();
    return regression();
  });
}
