#include "training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "attention.hpp"
#include "batches.hpp"
#include "corpus.hpp"
#include "generation.hpp"
#include "model_file.hpp"
#include "progress.hpp"
#include "train_checks.hpp"

namespace toy_lm {
namespace {

/// The median of the last `most` values.
double median(const std::vector<double>& values, std::size_t most) {
  std::vector<double> last(values.end() - static_cast<std::ptrdiff_t>(std::min(most, values.size())), values.end());
  const auto middle = last.begin() + static_cast<std::ptrdiff_t>(last.size() / 2);
  std::nth_element(last.begin(), middle, last.end());
  return *middle;
}

/// Matrices decay (embeddings are matrices), vectors don't.
std::vector<tg::optim::ParamGroup> decay_groups(const Gpt& model, double weight_decay) {
  tg::Tensors matrices, vectors;
  for (const tg::Tensor& parameter : model.parameters())
    (parameter.rank() >= 2 ? matrices : vectors).push_back(parameter);
  return {{.parameters = matrices, .weight_decay = weight_decay}, {.parameters = vectors, .weight_decay = 0.0}};
}

class Trainer {
 public:
  Trainer(const TrainOptions& options, Corpus corpus)
      : options_(options),
        corpus_(std::move(corpus)),
        model_(with_vocabulary(options.model, corpus_.vocabulary.size())),
        optimizer_(decay_groups(model_, options.weight_decay), {.lr = options.lr, .betas = {0.9, options.beta2}}),
        schedule_(optimizer_, {.total_steps = options.steps,
                               .warmup_steps = std::min(options.warmup, options.steps),
                               .min_lr = options.min_lr}) {}

  void run() {
    announce();
    for (std::int64_t step = 1; step <= options_.steps; ++step) {
      const double lr = optimizer_.lr();
      const double loss = timed_step(step);
      losses_ += loss;
      ++losses_counted_;
      progress_.update({step, options_.steps, loss, lr, tokens_per_second()});
      if (step % options_.eval_every == 0 || step == options_.steps) evaluate_and_save(step, lr);
    }
    finish();
  }

 private:
  static GptConfig with_vocabulary(GptConfig config, std::int64_t vocabulary) {
    config.vocabulary = vocabulary;
    return config;
  }

  void announce() {
    progress_.print(fmt::format("{}: {} characters, {} different; model of {} parameters; {} threads", corpus_.name,
                                corpus_.split.training.size() + corpus_.split.validation.size(),
                                corpus_.vocabulary.size(), model_.num_parameters(), tg::num_threads()));
  }

  double timed_step(std::int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    const double loss = train_step(step);
    seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return loss;
  }

  double train_step(std::int64_t step) {
    const Batch batch = random_batch(corpus_.split.training, options_.batch, options_.model.context);
    const tg::Tensor loss = model_.loss(batch.ids, batch.targets);
    optimizer_.zero_grad();
    loss.backward();
    const double value = loss.item();
    if (!std::isfinite(value)) throw std::runtime_error(describe_not_finite(model_, step, "loss", value, saved_step_));
    clip_gradients(model_, options_.clip, step, saved_step_);
    optimizer_.step();
    schedule_.step();
    return value;
  }

  void evaluate_and_save(std::int64_t step, double lr) {
    const bool last = step == options_.steps;
    validation_loss_ = evaluate(model_, corpus_.split.validation, last ? 0 : kEvaluationWindows);
    if (!std::isfinite(validation_loss_))
      throw std::runtime_error(describe_not_finite(model_, step, "validation loss", validation_loss_, saved_step_));
    save_model(options_.out + "/model.safetensors", model_, corpus_.vocabulary);
    saved_step_ = step;
    const double train_loss = losses_ / static_cast<double>(losses_counted_);
    losses_ = 0;
    losses_counted_ = 0;
    // Not before: the metrics of an earlier run in this folder stay as long as its model does.
    if (!metrics_.is_open()) {
      metrics_.open(options_.out + "/metrics.csv");
      metrics_ << "step,train_loss,val_loss,lr,tokens_per_s\n";
    }
    metrics_ << fmt::format("{},{:.6f},{:.6f},{:.6e},{:.0f}\n", step, train_loss, validation_loss_, lr,
                            tokens_per_second());
    metrics_.flush();
    if (!metrics_) throw tg::FileError("metrics: '" + options_.out + "/metrics.csv' could not be written");
    progress_.print(fmt::format("eval step {}: train_loss {:.4f}  val_loss {:.4f}{}", step, train_loss,
                                validation_loss_,
                                corpus_.floor ? fmt::format("  (floor {:.4f})", *corpus_.floor) : ""));
  }

  void finish() {
    progress_.print(fmt::format("final: steps={} val_loss={:.4f} tokens_per_s={:.0f}", options_.steps, validation_loss_,
                                tokens_per_second(seconds_.size())));
    if (corpus_.floor) progress_.print(fmt::format("floor {:.2f}, loss {:.2f}", *corpus_.floor, validation_loss_));
    model_.eval();
    const auto& text = corpus_.split.validation;
    progress_.print("\n" + head_report(model_, {text.begin(), text.begin() + model_.config().context}));
    std::string sample;
    generate(model_, corpus_.vocabulary, {}, 300, {},
             [&](std::int64_t token) { sample += corpus_.vocabulary.decode(token); });
    progress_.print("\n" + sample + "\n");
    progress_.print("model:   " + options_.out + "/model.safetensors\nmetrics: " + options_.out + "/metrics.csv");
  }

  double tokens_per_second(std::size_t steps = 100) const {
    return static_cast<double>(options_.batch * options_.model.context) / median(seconds_, steps);
  }

  const TrainOptions& options_;
  Corpus corpus_;
  Gpt model_;
  tg::optim::AdamW optimizer_;
  tg::optim::CosineSchedule schedule_;
  std::ofstream metrics_;
  Progress progress_;
  std::vector<double> seconds_;  // of each training step
  double losses_ = 0;            // since the last evaluation
  std::int64_t losses_counted_ = 0;
  double validation_loss_ = 0;
  std::int64_t saved_step_ = 0;
};

}  // namespace

void train(const TrainOptions& options) {
  check(options);
  const auto seed = static_cast<std::uint64_t>(options.seed);
  Corpus corpus = load_corpus(options.text, seed, options.model.context);
  check_folder(options.out);
  tg::manual_seed(seed);
  Trainer(options, std::move(corpus)).run();
}

}  // namespace toy_lm
