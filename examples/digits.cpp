// A small vision transformer reads digits that the program draws itself: strokes of a pen, turned, stretched, moved,
// thick or thin, and noisy. Every batch is new, and so are the digits of the test.
#include <chrono>
#include <complex>
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

constexpr std::int64_t kSide = 16, kPatch = 4, kRows = kSide / kPatch, kPixels = kPatch * kPatch, kWidth = 48;
using Block = nn::TransformerBlock;
using Point = std::complex<double>;
using Stroke = std::vector<Point>;

// A part of an ellipse, in quarter turns: 0 is right, 1 is down.
Stroke arc(Point centre, double across, double down, double from, double to) {
  Stroke stroke;
  for (double t = from; t < to + 0.01; t += (to - from) / 10)
    stroke.push_back(centre + Point(across * std::cos(1.5708 * t), down * std::sin(1.5708 * t)));
  return stroke;
}

// Each digit as strokes between (-1, -1), top left, and (1, 1).
const std::vector<std::vector<Stroke>> kStrokes = {
    {arc({0, 0}, 0.6, 0.95, 0, 4)},
    {{{-0.4, -0.5}, {0.1, -0.95}, {0.1, 0.95}}},
    {arc({0, -0.4}, 0.55, 0.55, 2, 4.4), {{0.42, -0.05}, {-0.6, 0.95}, {0.65, 0.95}}},
    {arc({-0.1, -0.47}, 0.6, 0.48, 2.3, 5), arc({-0.1, 0.47}, 0.65, 0.48, 3, 5.7)},
    {{{0.3, 0.95}, {0.3, -0.95}, {-0.65, 0.4}, {0.7, 0.4}}},
    {{{0.55, -0.95}, {-0.45, -0.95}, {-0.5, -0.1}}, arc({-0.05, 0.35}, 0.6, 0.6, 2.5, 5.6)},
    {arc({0, 0.4}, 0.55, 0.55, 0, 4), arc({0.6, 0.4}, 1.15, 1.35, 2, 2.9)},
    {{{-0.6, -0.95}, {0.6, -0.95}, {-0.2, 0.95}}},
    {arc({0, -0.48}, 0.45, 0.45, 0, 4), arc({0, 0.47}, 0.58, 0.48, 0, 4)},
    {arc({0, -0.4}, 0.55, 0.55, 0, 4), arc({-0.6, -0.4}, 1.15, 1.35, 0, 0.9)}};

// The ink of each pixel, by its distance to the path of the pen.
void draw(const std::vector<Stroke>& strokes, std::vector<double>& pixels) {
  const std::vector<double> r = (2 * tg::rand({6}) - 1).to_vector<double>();
  const Point turn = std::polar(1.0, 0.35 * r[0]), middle(7.5 + 1.5 * r[1], 7.5 + 1.5 * r[2]);
  for (int i = 0; i < kSide * kSide; ++i) {
    const Point turned = turn * (Point(i % kSide, i / kSide) - middle);
    const Point here(turned.real() / (5 + r[3]), turned.imag() / (5.5 + r[4]));
    double nearest = kSide;
    for (const Stroke& stroke : strokes)
      for (std::size_t k = 1; k < stroke.size(); ++k) {
        const Point from = here - stroke[k - 1], line = stroke[k] - stroke[k - 1];
        const double along = std::clamp((std::conj(line) * from).real() / std::norm(line), 0.0, 1.0);
        nearest = std::min(nearest, std::abs(from - along * line));
      }
    pixels.push_back(std::clamp(1.5 + 0.4 * r[5] - 5 * nearest, 0.0, 1.0));
  }
}

std::pair<tg::Tensor, tg::Tensor> digits(std::int64_t count) {  // images [count, side, side], labels [count]
  const tg::Tensor labels = tg::randint(0, 10, {count});
  std::vector<double> pixels;
  for (const std::int64_t label : labels.to_vector<std::int64_t>()) draw(kStrokes[label], pixels);
  return {tg::from_vector(pixels, {count, kSide, kSide}) + 0.2 * tg::randn({count, kSide, kSide}), labels};
}

struct VisionTransformer : nn::Module {
  nn::Linear patch = register_module("patch", nn::Linear(kPixels, kWidth));
  tg::Tensor position = register_parameter("position", 0.5 * tg::randn({kRows * kRows, kWidth}));
  nn::Sequential blocks = register_module("blocks", nn::Sequential(Block(kWidth, 4), Block(kWidth, 4)));
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(kWidth));
  nn::Linear head = register_module("head", nn::Linear(kWidth, 10));

  tg::Tensor forward(const tg::Tensor& images) const {  // [N, side, side] -> logits [N, 10]
    const tg::Tensor squares = images.reshape({-1, kRows, kPatch, kRows, kPatch}).transpose(2, 3);
    return head(norm(blocks(patch(squares.reshape({-1, kRows * kRows, kPixels})) + position)).mean(1));
  }
};

void show(const tg::Tensor& images) {  // side by side, two rows of pixels on each line
  constexpr const char* kInk[] = {" ", "░", "▒", "▓", "█"};
  for (const tg::Tensor& line : tg::unbind(images.transpose(0, 1).reshape({kSide / 2, 2, -1}).mean(1))) {
    for (const double ink : line.to_vector<double>()) fmt::print("{}", kInk[std::clamp(std::lround(4 * ink), 0L, 4L)]);
    fmt::print("\n");
  }
}

bool learn(std::int64_t steps, std::int64_t seed) {
  tg::manual_seed(seed);
  VisionTransformer model;
  tg::optim::AdamW optimizer(model.parameters(), {.lr = 3e-3, .weight_decay = 0.01});
  tg::optim::CosineSchedule schedule(optimizer, {.total_steps = steps, .warmup_steps = steps / 10});
  show(digits(5).first);
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = 1; step <= steps; ++step) {
    const auto [images, labels] = digits(64);
    const tg::Tensor loss = nn::cross_entropy(model.forward(images), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    schedule.step();
    if (step % 100 != 0) continue;
    const double rate = step / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("step {:4}/{}  loss {:.4f}  {:.0f} digits/s  {:.0f} s left\n", step, steps, loss.item(), 64 * rate,
               (steps - step) / rate);
  }
  const tg::NoGradGuard no_grad;
  const auto [images, labels] = digits(2000);
  const tg::Tensor said = model.forward(images).argmax(-1), wrong = tg::ne(said, labels);
  const double accuracy = 1 - wrong.to(tg::float64).mean().item();
  fmt::print("{:.2f} % of {} fresh digits are read right\n", 100 * accuracy, labels.numel());
  if (const tg::Tensor rows = tg::nonzero(wrong).flatten().slice(0, 0, 5); rows.numel() > 0) {
    const tg::Tensor pairs = tg::scatter_add(tg::zeros({100}), 0, 10 * labels + said, wrong.to(tg::float32));
    const auto worst = static_cast<std::int64_t>(tg::argmax(pairs).item());
    fmt::print("the worst pair: {} is taken for {}, {} times; mistakes:\n", worst / 10, worst % 10, pairs.max().item());
    show(images.index({rows}));
  }
  return accuracy > 0.98;
}

int main(int argc, char** argv) {
  return arguments::run_training(argc, argv, "digits", "Learns to read digits that it draws", 1000, learn);
}
