// A curve through noisy points: mini-batches, a validation set, and a fit that can be seen. A model that has learnt the
// function and not the noise leaves exactly the noise's variance as its loss on points that it never saw.
#include <cmath>
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

constexpr double kNoise = 0.15;  // standard deviation

struct Mlp : nn::Module {
  nn::Linear first = register_module("first", nn::Linear(1, 48));
  nn::Linear second = register_module("second", nn::Linear(48, 48));
  nn::Linear readout = register_module("readout", nn::Linear(48, 1));

  tg::Tensor forward(const tg::Tensor& x) const { return readout(tg::gelu(second(tg::gelu(first(x))))); }
};

tg::Tensor truth(const tg::Tensor& x) { return tg::sin(3 * x) * tg::exp(-x * x / 4); }

struct Points {
  tg::Tensor x, y;  // [count, 1]
};

Points measure(std::int64_t count) {
  const tg::Tensor x = 6 * tg::rand({count, 1}) - 3;
  return {x, truth(x) + kNoise * tg::randn({count, 1})};
}

// The points (.) and the fit (#) on a screen of 13 lines, from y = 1.2 down to -1.2.
void plot(const Points& points, const Mlp& model) {
  constexpr int kRows = 13, kColumns = 73;
  std::vector<std::string> screen(kRows, std::string(kColumns, ' '));
  const auto put = [&](const tg::Tensor& x, const tg::Tensor& y, char mark) {
    const std::vector<double> across = x.to_vector<double>(), up = y.to_vector<double>();
    for (std::size_t i = 0; i < across.size(); ++i) {
      const long column = std::lround((across[i] + 3) / 6 * (kColumns - 1)), row = std::lround((1.2 - up[i]) / 0.2);
      if (row >= 0 && row < kRows) screen[row][column] = mark;
    }
  };
  put(points.x, points.y, '.');
  const tg::Tensor x = tg::linspace(-3, 3, kColumns).reshape({-1, 1});
  put(x, model.forward(x), '#');
  for (const std::string& line : screen) fmt::print("  {}\n", line);
}

bool learn() {
  tg::manual_seed(2);
  const Points train = measure(1000), validation = measure(1000);
  Mlp model;
  tg::optim::AdamW optimizer(model.parameters(), {.lr = 1e-2, .weight_decay = 0});
  const std::int64_t epochs = 100, batch = 25, batches = train.x.size(0) / batch;
  tg::optim::CosineSchedule schedule(optimizer, {.total_steps = epochs * batches, .warmup_steps = 100});

  double left = 0;
  for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
    double sum = 0;
    for (const tg::Tensor& rows : tg::split(tg::randperm(train.x.size(0)), batch)) {
      const tg::Tensor x = train.x.index({rows}), y = train.y.index({rows});
      const tg::Tensor loss = nn::mse_loss(model.forward(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      schedule.step();
      sum += loss.item();
    }
    if (epoch % 20 != 0) continue;
    const tg::NoGradGuard no_grad;
    left = nn::mse_loss(model.forward(validation.x), validation.y).item();
    fmt::print("epoch {:3}  train {:.4f}  validation {:.4f}\n", epoch, sum / static_cast<double>(batches), left);
  }

  const tg::NoGradGuard no_grad;
  const double error = nn::mse_loss(model.forward(validation.x), truth(validation.x)).item();
  fmt::print("the noise's variance is {:.4f}; the fit is {:.3f} away from the function itself (root mean square)\n\n",
             kNoise * kNoise, std::sqrt(error));
  plot(train, model);
  return left < 1.15 * kNoise * kNoise;
}

int main(int argc, char** argv) {
  return arguments::Program("regression", "Learns a curve from noisy points").run(argc, argv, learn);
}
