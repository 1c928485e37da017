#include "training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "attention.hpp"
#include "bad_input.hpp"
#include "batches.hpp"
#include "corpus.hpp"
#include "generation.hpp"
#include "interrupt.hpp"
#include "model_file.hpp"
#include "recipe.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "run_folder.hpp"
#include "settings.hpp"
#include "train_checks.hpp"

namespace toy_lm {
namespace {

const std::string kMetricsHeader = "step,train_loss,val_loss,lr,tokens_per_s\n";

/// The median of the last `most` values.
double median(const std::vector<double>& values, std::size_t most) {
  std::vector<double> last(values.end() - static_cast<std::ptrdiff_t>(std::min(most, values.size())), values.end());
  const auto middle = last.begin() + static_cast<std::ptrdiff_t>(last.size() / 2);
  std::nth_element(last.begin(), middle, last.end());
  return *middle;
}

/// While it lives, the model is in evaluation mode, with the average of its weights if there is one.
class Evaluation {
 public:
  Evaluation(const Gpt& model, std::optional<tg::optim::Ema>& ema) : evaluation_(model) {
    if (ema) averaged_.emplace(*ema);
  }

 private:
  nn::EvalGuard evaluation_;
  std::optional<tg::optim::Ema::Scope> averaged_;
};

class Trainer {
 public:
  Trainer(const TrainOptions& options, Corpus corpus)
      : options_(options),
        corpus_(std::move(corpus)),
        model_(with_vocabulary(options.model, corpus_.vocabulary.size())),
        optimizer_(make_optimizer(model_, options)),
        schedule_(*optimizer_, make_schedule(options)) {
    if (options.ema > 0) ema_.emplace(model_.parameters(), options.ema);
    if (!options.proof) interrupt_.emplace("stopping after this step; again: stop now, unsaved\n");
  }

  void run() {
    if (options_.resume) load_run();
    try {
      announce();
      train_all();
    } catch (const Interrupted&) {
      stop();
    } catch (const std::system_error&) {
      if (!interrupt_ || !interrupt_->requested() || run_.step == 0) throw;
      stop();  // after a hangup no line can be printed
    }
    interrupt_.reset();  // all is saved
    finish();
  }

 private:
  static GptConfig with_vocabulary(GptConfig config, std::int64_t vocabulary) {
    config.vocabulary = vocabulary;
    return config;
  }

  void announce() {
    progress_.print(fmt::format("{}: {} tokens, {} different; model of {} parameters; {} threads", corpus_.name,
                                corpus_.split.training.size() + corpus_.split.validation.size(),
                                corpus_.vocabulary.size(), model_.num_parameters(), tg::num_threads()));
    if (options_.resume) progress_.print(fmt::format("goes on after step {}", run_.step));
  }

  void train_all() {
    if (run_.step > 0)
      end_of_step();
    else
      save_run();  // so that --resume goes on wherever it is killed
    progress_ = tg::Progress(run_.step);
    const std::int64_t before = run_.step;
    const auto start = std::chrono::steady_clock::now();
    while (run_.step < options_.steps) {
      const StepRecord record = timed_step(++run_.step);
      run_.losses += record.loss;
      ++run_.losses_counted;
      run_.history.add(record);
      heed_signals();  // before a line is written: who reads it may be gone
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      progress_.update({run_.step, options_.steps, record.loss, record.lr,
                        static_cast<double>((run_.step - before) * options_.batch * options_.model.context) / seconds});
      end_of_step();
    }
  }

  void heed_signals() const {
    if (interrupt_) interrupt_->heed();
  }

  StepRecord timed_step(std::int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    StepRecord record = train_step(step);
    seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    record.tokens_per_second = tokens_per_second(1);
    return record;
  }

  StepRecord train_step(std::int64_t step) {
    const Batch batch = random_batch(corpus_.split.training, options_.batch, options_.model.context);
    const double lr = optimizer_->lr();
    optimizer_->zero_grad();
    const double value = add_gradients(batch);
    if (!std::isfinite(value)) throw std::runtime_error(describe_not_finite(model_, step, "loss", value, saved_step_));
    const double norm = clip_gradients(model_, options_.clip, step, saved_step_);
    optimizer_->step();
    schedule_.step();
    if (ema_) ema_->update();
    return {.step = step, .loss = value, .lr = lr, .gradient_norm = norm, .tokens_per_second = 0};
  }

  /// The gradients of the batch's mean loss, which is returned, as the mean over its parts.
  double add_gradients(const Batch& batch) const {
    const std::int64_t rows = options_.batch / options_.accumulate;
    const double share = 1.0 / static_cast<double>(options_.accumulate);
    double value = 0;
    for (std::int64_t first = 0; first < options_.batch; first += rows) {
      const tg::Tensor loss =
          model_.loss(batch.ids.slice(0, first, first + rows), batch.targets.slice(0, first, first + rows)) * share;
      loss.backward();
      value += loss.item();
    }
    return value;
  }

  void load_run() {
    try {
      run_ = read_notes(options_.out, corpus_);
      tg::load_checkpoint(checkpoint_path(options_.out), model_, *optimizer_, parts());
    } catch (const tg::Error& error) {
      throw BadInput(fmt::format("--resume: {}", error.what()));
    }
    saved_step_ = run_.step;
    if (run_.step > options_.steps)
      throw BadInput(
          fmt::format("--steps: must be at least {}, which the run has done; got {}", run_.step, options_.steps));
  }

  [[noreturn]] void stop() {
    save_run();
    try {
      progress_.print(fmt::format("stopped after step {}; to go on:\n    {}", run_.step, options_.resume_command));
    } catch (const std::system_error&) {  // who read it is gone
    }
    throw Interrupted{interrupt_->requested()};
  }

  /// What is due after a step. A checkpoint holds what was there before the evaluation, which a resumed run does again:
  /// wherever it was stopped, within it too, each evaluation has its line, and sees the steps that it should.
  void end_of_step() {
    const bool last = run_.step == options_.steps, evaluates = last || run_.step % options_.eval_every == 0;
    const std::string row = evaluates ? evaluate_and_report(last) : "";
    if (last || run_.step % (options_.save_every > 0 ? options_.save_every : options_.eval_every) == 0) save_run();
    if (!evaluates) return;
    run_.rows += row;
    run_.losses = 0;
    run_.losses_counted = 0;
  }

  void save_run() {
    check_finite(model_, run_.step, saved_step_);
    tg::CheckpointNote note{.metadata = describe_run(options_, corpus_)};
    run_.tokens_per_second = tokens_per_second();
    add_notes(note, run_);
    tg::save_checkpoint(checkpoint_path(options_.out), model_, *optimizer_, parts(), note);
    saved_step_ = run_.step;
  }

  tg::CheckpointParts parts() {
    tg::CheckpointParts parts{.schedule = schedule_};
    if (ema_) parts.ema = *ema_;
    return parts;
  }

  /// Returns the line for the metrics.
  std::string evaluate_and_report(bool last) {
    const Evaluation evaluation(model_, ema_);
    // Beside the floor a loss must be of characters that have enough before them to tell where in a sentence they are.
    validation_loss_ = evaluate(model_, corpus_.split.validation, last ? 0 : kEvaluationWindows,
                                corpus_.floor ? options_.model.context / 2 : 0, [&] { heed_signals(); });
    if (!std::isfinite(validation_loss_))
      throw std::runtime_error(
          describe_not_finite(model_, run_.step, "validation loss", validation_loss_, saved_step_));
    save_model(options_.out + "/model.safetensors", model_, corpus_.vocabulary);
    const double train_loss = run_.losses / static_cast<double>(run_.losses_counted);
    const std::string row = fmt::format("{},{:.6f},{:.6f},{:.6e},{:.0f}\n", run_.step, train_loss, validation_loss_,
                                        schedule_.lr_at(run_.step - 1), tokens_per_second());
    write_metrics(row);
    progress_.print(fmt::format("eval step {}: train_loss {:.4f}  val_loss {:.4f}{}", run_.step, train_loss,
                                validation_loss_,
                                corpus_.floor ? fmt::format("  (floor {:.4f})", *corpus_.floor) : ""));
    sample_for_report();
    write_report(options_.out + "/report.html", run_.history, facts(row));
    return row;
  }

  /// With random numbers of its own: what is learnt doesn't depend on it.
  void sample_for_report() {
    const tg::RandomStateGuard random({static_cast<std::uint64_t>(options_.seed), 0});
    run_.history.add_sample(run_.step, sample(options_.model.context));
  }

  ReportFacts facts(const std::string& row) const {
    ReportFacts facts;
    facts.title = fmt::format("toy_lm on {}", options_.text.size() == 1
                                                  ? std::filesystem::path(options_.text[0]).filename().string()
                                                  : corpus_.name);
    facts.metrics = kMetricsHeader + run_.rows + row;
    facts.floor = corpus_.floor;
    facts.settings = written_settings(options_);
    std::erase_if(facts.settings, [&](const auto& setting) { return !counts(setting.first, options_); });
    std::string& texts = facts.settings["--text"];
    for (const std::string& path : options_.text)
      texts += std::filesystem::absolute(path).lexically_normal().string() + "\n";
    if (texts.empty()) texts = corpus_.name;
    facts.summary = {{"validation loss", fmt::format("{:.4f}", validation_loss_)},
                     {"steps", fmt::format("{} of {}", run_.step, options_.steps)},
                     {"parameters", fmt::to_string(model_.num_parameters())},
                     {"tokens seen", fmt::to_string(run_.step * options_.batch * options_.model.context)},
                     {"tokens/s", fmt::format("{:.0f}", tokens_per_second())}};
    const auto& text = corpus_.split.validation;
    const std::vector<std::int64_t> read(text.begin(),
                                         text.begin() + std::min<std::int64_t>(options_.model.context, 64));
    for (const std::int64_t token : read) facts.characters.push_back(corpus_.vocabulary.decode(token));
    facts.maps = attention_maps(model_, read);
    return facts;
  }

  /// At first the lines of before the run was resumed.
  void write_metrics(const std::string& row) {
    if (!metrics_.is_open()) {
      metrics_.open(options_.out + "/metrics.csv");
      metrics_ << kMetricsHeader << run_.rows;
    }
    metrics_ << row << std::flush;
    if (!metrics_) throw tg::FileError("metrics: '" + options_.out + "/metrics.csv' could not be written");
  }

  void finish() {
    progress_.print(fmt::format("final: steps={} val_loss={:.4f} tokens_per_s={:.0f}", options_.steps, validation_loss_,
                                tokens_per_second(seconds_.size())));
    if (corpus_.floor) progress_.print(fmt::format("floor {:.2f}, loss {:.2f}", *corpus_.floor, validation_loss_));
    const Evaluation evaluation(model_, ema_);
    const auto& text = corpus_.split.validation;
    progress_.print("\n" + head_report(model_, {text.begin(), text.begin() + model_.config().context}));
    progress_.print("\n" + sample(300) + "\n");
    if (options_.proof) return;
    progress_.print(fmt::format("model:   {0}/model.safetensors\nmetrics: {0}/metrics.csv\nreport:  {0}/report.html",
                                options_.out));
  }

  std::string sample(std::int64_t characters) const {
    std::string text;
    generate(model_, corpus_.vocabulary, {}, characters, {},
             [&](std::int64_t token) { text += corpus_.vocabulary.decode(token); });
    return text;
  }

  double tokens_per_second(std::size_t steps = 100) const {
    if (seconds_.empty()) return run_.tokens_per_second;
    return static_cast<double>(options_.batch * options_.model.context) / median(seconds_, steps);
  }

  const TrainOptions options_;
  Corpus corpus_;
  Gpt model_;
  std::unique_ptr<tg::optim::Optimizer> optimizer_;
  tg::optim::Schedule schedule_;
  std::optional<tg::optim::Ema> ema_;
  std::ofstream metrics_;
  RunNotes run_;
  tg::Progress progress_;
  std::optional<InterruptGuard> interrupt_;
  std::vector<double> seconds_;  // of each training step of this process
  double validation_loss_ = 0;
  std::int64_t saved_step_ = 0;
};

}  // namespace

Corpus load_corpus(const TrainOptions& options) {
  return load_corpus(options.text, static_cast<std::uint64_t>(options.seed), options.model.context,
                     options.tokenizer == "bpe" ? std::optional(options.vocabulary) : std::nullopt);
}

void train(TrainOptions options) {
  check(options);
  const bool anew = !options.resume && !options.overwrite;
  if (anew) expect_no_run(options.out);  // a long text takes its time
  if (options.schedule_steps == 0) options.schedule_steps = options.steps;
  Corpus corpus = load_corpus(options);
  const RunFolder folder(options.out, options.resume ? "--resume" : "--out");
  if (anew) expect_no_run(options.out);
  if (options.overwrite) remove_run(options.out);
  tg::manual_seed(static_cast<std::uint64_t>(options.seed));
  Trainer(options, std::move(corpus)).run();
}

}  // namespace toy_lm
