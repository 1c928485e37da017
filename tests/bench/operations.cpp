// The workloads of single operations, printed as lines of JSON like those of peers/micro_torch.py:
//   operations w3 [T] | w4 | w5
// W3: causal attention, 8 heads of 64. W4: a chain of y * a + b on one element. W5: a million elements.
#include <cstdlib>
#include <string_view>

#include <fmt/core.h>

#include <tapegrad/tapegrad.hpp>

#include "timing.hpp"

namespace tg = tapegrad;

namespace {

void attention(std::int64_t length) {
  const tg::Shape shape{1, 8, length, 64};
  tg::Tensor q = tg::randn(shape).requires_grad_(), k = tg::randn(shape).requires_grad_(),
             v = tg::randn(shape).requires_grad_();
  const tg::Tensor g = tg::randn(shape);
  const double base = bench::peak_memory_mb(), gradients = 3.0 * static_cast<double>(shape.numel() * 4) / (1 << 20);
  const auto work = [&] {
    for (const tg::Tensor& x : {q, k, v}) x.set_grad({});
    tg::nn::scaled_dot_product_attention(q, k, v, {.is_causal = true, .need_weights = false}).output.backward(g);
  };
  const auto rounds = bench::repeat(work, 5, 3000);
  fmt::print(R"({{"w": "w3", "T": {}, "threads": {}, "median": {:.4f}, "min": {:.4f}, "rss_over_base_mb": {:.1f}, )"
             R"("rss_over_inputs_and_gradients_mb": {:.1f}}})"
             "\n",
             length, tg::num_threads(), rounds.median_ms, rounds.min_ms, bench::peak_memory_mb() - base,
             bench::peak_memory_mb() - base - gradients);
}

void chain() {
  constexpr int kSteps = 10000;
  tg::Tensor start = tg::full({1}, 1.0).requires_grad_(), a = tg::full({1}, 0.9999).requires_grad_(),
             b = tg::full({1}, 0.0001).requires_grad_();
  const auto forward = [&] {
    tg::Tensor y = start;
    for (int i = 0; i < kSteps; ++i) y = y * a + b;
    return y;
  };
  const auto both = [&] {
    for (const tg::Tensor& x : {start, a, b}) x.set_grad({});
    forward().backward();
  };
  const auto plain = [&] {
    tg::NoGradGuard no_grad;
    forward();
  };
  const auto nograd = bench::repeat(plain, 5, 500), recorded = bench::repeat(forward, 5, 500),
             swept = bench::repeat(both, 10, 1500);
  const auto ns = [](double ms) { return ms * 1e6 / kSteps; };
  fmt::print(R"({{"w": "w4", "threads": {}, "ns_per_step_nograd": {:.0f}, "ns_per_step_forward": {:.0f}, )"
             R"("ns_per_step": {:.0f}, "ns_per_step_min": {:.0f}}})"
             "\n",
             tg::num_threads(), ns(nograd.median_ms), ns(recorded.median_ms), ns(swept.median_ms), ns(swept.min_ms));
}

template <class F>
void elementwise(const char* name, F&& f) {
  tg::Tensor x = tg::randn({4096, 256}).requires_grad_();
  const tg::Tensor g = tg::randn({4096, 256});
  tg::Tensor weight = tg::ones({256}).requires_grad_(), bias = tg::zeros({256}).requires_grad_();
  const auto both = [&] {
    for (const tg::Tensor& leaf : {x, weight, bias}) leaf.set_grad({});
    f(x, weight, bias).backward(g);
  };
  const auto plain = [&] {
    tg::NoGradGuard no_grad;
    f(x, weight, bias);
  };
  const auto forward = bench::repeat(plain, 50, 500), rounds = bench::repeat(both, 50, 1500);
  fmt::print(R"({{"w": "w5", "op": "{}", "threads": {}, "fwd_ms": {:.4f}, "fwdbwd_ms": {:.4f}, "fwdbwd_min": {:.4f}}})"
             "\n",
             name, tg::num_threads(), forward.median_ms, rounds.median_ms, rounds.min_ms);
}

void elementwise_operations() {
  using tg::Tensor;
  elementwise("gelu(erf)", [](const Tensor& x, const Tensor&, const Tensor&) { return tg::gelu(x); });
  elementwise("gelu(tanh)",
              [](const Tensor& x, const Tensor&, const Tensor&) { return tg::gelu(x, tg::GeluApproximation::tanh); });
  elementwise("softmax", [](const Tensor& x, const Tensor&, const Tensor&) { return tg::softmax(x, -1); });
  elementwise("layernorm", [](const Tensor& x, const Tensor& w, const Tensor& b) { return tg::layer_norm(x, w, b); });
  elementwise("x*2+1", [](const Tensor& x, const Tensor&, const Tensor&) { return x * 2 + 1; });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "w3")
    attention(argc > 2 ? std::atoll(argv[2]) : 1024);
  else if (what == "w4")
    chain();
  else if (what == "w5")
    elementwise_operations();
  else
    return fmt::print(stderr, "usage: operations w3 [T] | w4 | w5\n"), 2;
}
