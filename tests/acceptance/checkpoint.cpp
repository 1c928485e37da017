// Stop, save, load, go on: the resumed run equals the uninterrupted one to the last bit.
#include <filesystem>
#include <fstream>

#include <tapegrad/tapegrad.hpp>

#include "check.hpp"

namespace tg = tapegrad;

struct Net : tg::nn::Module {
  tg::nn::Linear in = register_module("in", tg::nn::Linear(4, 16));
  tg::nn::Dropout drop = register_module("drop", tg::nn::Dropout(0.1));
  tg::nn::Linear out = register_module("out", tg::nn::Linear(16, 2));
  tg::Tensor forward(const tg::Tensor& x) { return out(drop(tg::nn::gelu(in(x)))); }
};

double train(Net& net, tg::optim::Optimizer& optimizer, int steps) {
  double last = 0;
  for (int step = 0; step < steps; ++step) {
    tg::Tensor x = tg::randn({8, 4});
    tg::Tensor loss = tg::nn::mse_loss(net.forward(x), x.slice(1, 0, 2));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item();
  }
  return last;
}

int main() {
  const auto folder = std::filesystem::temp_directory_path() / "tapegrad-acceptance";
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "run.safetensors").string();

  tg::manual_seed(2);
  Net whole;
  tg::optim::AdamW whole_optimizer(whole.parameters(), {.lr = 1e-2});
  train(whole, whole_optimizer, 20);
  tg::save_checkpoint(file, whole,
                      whole_optimizer);  // parameters, optimizer state and random state, written atomically
  const double expected = train(whole, whole_optimizer, 20);

  tg::manual_seed(999);
  Net resumed;
  tg::optim::AdamW resumed_optimizer(resumed.parameters(), {.lr = 1e-2});
  tg::load_checkpoint(file, resumed, resumed_optimizer);
  check(train(resumed, resumed_optimizer, 20) == expected, "the loss is equal to the last bit");
  for (std::size_t i = 0; i < whole.parameters().size(); ++i)
    check(tg::equal(whole.parameters()[i], resumed.parameters()[i]), "and so is every parameter");

  // A plain state dict is a plain safetensors file: any tool that reads the format reads it.
  const std::string weights = (folder / "weights.safetensors").string();
  tg::save_safetensors(weights, whole.state_dict());
  Net copy;
  copy.load_state_dict(tg::load_safetensors(weights));
  check(tg::equal(copy.parameters()[0], whole.parameters()[0]), "state dict round trip");

  auto partial = whole.state_dict();
  partial.erase("out.bias");
  check_throws(
      "a missing entry", [&] { copy.load_state_dict(partial); }, "out.bias");

  // A damaged file is refused with its name, and the model keeps what it had.
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 5);
  const tg::Tensor before = copy.parameters()[0].clone();
  check_throws(
      "a cut file", [&] { copy.load_state_dict(tg::load_safetensors(weights)); }, "weights.safetensors");
  check(tg::equal(copy.parameters()[0], before), "nothing was lost");
  std::filesystem::remove_all(folder);
  return finish();
}
