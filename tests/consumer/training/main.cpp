#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;

struct Arms : tg::nn::Module {  // which of two spiral arms is a point on?
  tg::nn::Linear hidden = register_module("hidden", tg::nn::Linear(2, 64));
  tg::nn::Linear readout = register_module("readout", tg::nn::Linear(64, 2));
  tg::Tensor forward(const tg::Tensor& x) const { return readout(tg::silu(hidden(x))); }
};

int main() {
  tg::manual_seed(1);
  tg::Tensor radius = tg::rand({512, 1}), arm = tg::randint(0, 2, {512});
  tg::Tensor angle = 6 * radius + 3.1416 * arm.unsqueeze(1);
  tg::Tensor x = radius * tg::cat({tg::cos(angle), tg::sin(angle)}, 1);
  Arms model;
  tg::optim::AdamW optimizer(model.parameters(), {.lr = 0.05});
  for (int step = 0; step <= 400; ++step) {
    tg::Tensor loss = tg::nn::cross_entropy(model.forward(x), arm);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) fmt::print("step {:3}  loss {:.4f}\n", step, loss.item());
  }
}
