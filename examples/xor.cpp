// Exclusive or: four points that no straight line separates, and so the smallest task that needs a hidden layer.
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

bool learn() {
  tg::manual_seed(1);
  const tg::Tensor x = tg::tensor({{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}});
  const tg::Tensor y = tg::tensor({0, 1, 1, 0});  // the class of each point

  nn::Sequential model(nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 2));
  tg::optim::Adam optimizer(model.parameters(), {.lr = 0.03});
  fmt::print("{}\n\n", model);

  for (int step = 1; step <= 300; ++step) {
    const tg::Tensor loss = nn::cross_entropy(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 50 == 0) fmt::print("step {:3}  loss {:.4f}\n", step, loss.item());
  }

  const tg::NoGradGuard no_grad;
  const tg::Tensor probability = tg::softmax(model(x), -1).select(1, 1);  // of class 1
  fmt::print("\n a b   a xor b   probability of 1\n");
  for (std::int64_t i = 0; i < 4; ++i)
    fmt::print(" {} {}      {}         {:.4f}\n", x.index({i, 0}).item(), x.index({i, 1}).item(), y.select(0, i).item(),
               probability.select(0, i).item());
  return tg::equal(tg::gt(probability, 0.5), y);
}

int main(int argc, char** argv) {
  return arguments::Program("xor", "Learns the exclusive or of two bits").run(argc, argv, learn);
}
