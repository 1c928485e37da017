#include <tapegrad/training/trainer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/optim/clip.hpp>
#include <tapegrad/training/metrics.hpp>
#include <tapegrad/training/progress.hpp>

namespace tapegrad {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStart = "step-", kEnd = ".safetensors";

void check_done(const std::error_code& error, const char* what, const std::string& path) {
  require<FileError>(!error, "train: '{}' must be {}; {}", path, what, error.message());
}

/// The numbers of the step files in the folder, the last one first.
std::vector<std::int64_t> saved_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with(kStart) || !name.ends_with(kEnd)) continue;
    const char* last = name.data() + name.size() - kEnd.size();
    if (std::from_chars(name.data() + kStart.size(), last, step).ptr == last) steps.push_back(step);
  }
  check_done(error, "a folder that can be read", folder);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

/// Without the sign that a NaN may have.
std::string shown(double value) { return fmt::to_string(std::isnan(value) ? std::abs(value) : value); }

void check(const TrainerOptions& options) {
  require(static_cast<bool>(options.loss), "train: loss must be given; got none");
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    require(value >= least, "train: {} must be at least {}; got {}", name, least, value);
  };
  at_least("steps", options.steps, 0);
  at_least("patience", options.patience, 0);
  at_least("evaluate_every", options.evaluate_every, 1);
  at_least("keep_last", options.keep_last, 1);
  at_least("accumulate", options.accumulate, 1);
  require(options.clip_norm >= 0, "train: clip_norm must not be negative; got {}", options.clip_norm);
  require(options.patience == 0 || options.evaluate, "train: patience must go with evaluate; got no evaluate");
  require(!options.resume || !options.folder.empty(), "train: resume must go with a folder; got none");
}

class Run {
 public:
  Run(nn::Module& module, optim::Optimizer& optimizer, const TrainerOptions& options)
      : module_(module), optimizer_(optimizer), options_(options), parameters_(module.parameters()) {
    std::error_code error;
    if (writes()) fs::create_directories(options.folder, error);
    check_done(error, "a folder that can be written", options.folder);
    if (options.resume)
      resume();
    else
      check_new();
  }

  TrainingResult train() {
    Metrics metrics(options_.folder + "/metrics", result_.steps);
    Progress progress(result_.steps);
    while (result_.steps < options_.steps && (options_.patience == 0 || not_better_ < options_.patience)) {
      const AccumulatedLoss loss = step();
      if (options_.progress) progress.update({result_.steps, options_.steps, loss.mean, lr_, tokens_per_second()});
      const bool interrupted = options_.stop && options_.stop();
      if (result_.steps % options_.evaluate_every == 0 || result_.steps == options_.steps) {
        const MetricValues values = evaluate();
        if (writes()) metrics.write(result_.steps, values);
        if (options_.progress) progress.print(line_of(values));
        if (writes() && result_.best_step == result_.steps) save("best");
        if (writes()) save_step();
      } else if (interrupted && writes()) {
        save_step();
      }
      if (interrupted) break;
    }
    return result_;
  }

 private:
  bool writes() const { return !options_.folder.empty(); }
  double tokens_per_second() const { return static_cast<double>(tokens_) / seconds_; }

  AccumulatedLoss step() {
    const auto start = std::chrono::steady_clock::now();
    lr_ = optimizer_.lr();
    const AccumulatedLoss loss = accumulate_gradients(parameters_, options_.accumulate, options_.loss);
    if (!std::isfinite(loss.mean)) fail(result_.steps + 1, "loss", shown(loss.mean));
    try {
      norm_ = optim::clip_grad_norm(parameters_, options_.clip_norm, {.error_if_nonfinite = true});
    } catch (const ValueError& error) {
      fail(result_.steps + 1, "norm of the gradients", error.what());
    }
    optimizer_.step();
    if (options_.after_step) options_.after_step();
    ++result_.steps;
    losses_ += loss.mean * static_cast<double>(loss.tokens);
    loss_tokens_ += static_cast<double>(loss.tokens);
    tokens_ += loss.tokens;
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return loss;
  }

  /// The row of metrics as things stand.
  MetricValues row() const {
    MetricValues values{{"train_loss", losses_ / std::max(loss_tokens_, 1.0)}};
    if (options_.evaluate) values.emplace_back("validation_loss", result_.evaluation);
    for (const auto& [name, value] :
         {std::pair{"lr", lr_}, {"gradient_norm", norm_}, {"tokens_per_second", tokens_per_second()}})
      values.emplace_back(name, value);
    return values;
  }

  MetricValues evaluate() {
    if (options_.evaluate) {
      const nn::EvalGuard mode(module_);
      const NoGradGuard no_grad;
      result_.evaluation = options_.evaluate();
      if (!std::isfinite(result_.evaluation)) fail(result_.steps, "evaluation", shown(result_.evaluation));
      const bool better = result_.evaluation < result_.best;
      not_better_ = better ? 0 : not_better_ + 1;
      if (better) result_.best = result_.evaluation, result_.best_step = result_.steps;
    }
    MetricValues values = row();
    losses_ = loss_tokens_ = 0;
    return values;
  }

  std::string line_of(const MetricValues& values) const {
    std::string line = fmt::format("step {}:", result_.steps);
    for (const auto& [name, value] : values) line += fmt::format("  {} {:.6g}", name, value);
    return line;
  }

  [[noreturn]] void fail(std::int64_t step, const char* what, const std::string& value) const {
    const std::string parameter = first_not_finite(module_);
    throw NonFiniteError(fmt::format(
        "train: step {}: the {} must be finite; got {}; {}; checkpoints stay as they are; try a smaller lr", step, what,
        value, parameter.empty() ? "no parameter is at fault" : "the first parameter at fault is " + parameter));
  }

  std::string path(const std::string& stem) const {
    return (fs::path(options_.folder) / (stem + std::string(kEnd))).string();
  }
  std::string step_path(std::int64_t step) const { return path(fmt::format("{}{}", kStart, step)); }

  void save(const std::string& stem) const {
    if (!first_not_finite(module_).empty()) fail(result_.steps, "update", "a NaN or an infinity");
    const std::vector<double> state{result_.evaluation,
                                    result_.best,
                                    static_cast<double>(result_.best_step),
                                    static_cast<double>(not_better_),
                                    losses_,
                                    loss_tokens_};
    save_checkpoint(path(stem), module_, optimizer_, options_.parts,
                    {.step = result_.steps, .extra = {{"trainer", from_vector(state, {6}, float64)}}});
  }
  void save_step() const {
    save(fmt::format("{}{}", kStart, result_.steps));
    const std::vector<std::int64_t> steps = saved_steps(options_.folder);
    for (std::size_t i = static_cast<std::size_t>(options_.keep_last); i < steps.size(); ++i) {
      std::error_code error;
      fs::remove(step_path(steps[i]), error);
      check_done(error, "removable", step_path(steps[i]));
    }
  }

  /// Step files of another run would be taken for this one's last.
  void check_new() const {
    if (!writes()) return;
    if (const std::vector<std::int64_t> steps = saved_steps(options_.folder); !steps.empty())
      throw ValueError(
          fmt::format("train: the folder of a new run must have no step files; got '{}'; take another folder, or "
                      "resume to go on from it",
                      step_path(steps[0])));
  }

  void resume() {
    const std::vector<std::int64_t> steps = saved_steps(options_.folder);
    if (steps.empty()) return;
    const std::string file = step_path(steps[0]);
    const CheckpointNote known = read_checkpoint_note(file);
    const Tensor* saved = known.extra.find("trainer");
    require<FileError>(saved && saved->shape() == Shape{6},
                       "train: '{}' must be a checkpoint that train() saved; it is another", file);
    Metrics(options_.folder + "/metrics", known.step).check(row());
    result_.steps = load_checkpoint(file, module_, optimizer_, options_.parts).step;
    const std::vector<double> state = saved->to_vector<double>();
    result_.evaluation = state[0];
    result_.best = state[1];
    result_.best_step = static_cast<std::int64_t>(state[2]);
    not_better_ = static_cast<std::int64_t>(state[3]);
    losses_ = state[4];
    loss_tokens_ = state[5];
  }

  nn::Module& module_;
  optim::Optimizer& optimizer_;
  const TrainerOptions& options_;
  Tensors parameters_;
  TrainingResult result_;
  std::int64_t not_better_ = 0;          // evaluations since the best
  double losses_ = 0, loss_tokens_ = 0;  // since the last row of metrics
  double lr_ = 0, norm_ = 0, seconds_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace

AccumulatedLoss accumulate_gradients(const Tensors& parameters, std::int64_t count,
                                     const std::function<TokenLoss()>& loss) {
  require(count >= 1, "accumulate_gradients: count must be at least 1; got {}", count);
  for (const Tensor& parameter : parameters) parameter.set_grad({});
  AccumulatedLoss total;
  for (std::int64_t i = 0; i < count; ++i) {
    const TokenLoss part = loss();
    require(part.tokens >= 0, "accumulate_gradients: tokens must not be negative; got {}", part.tokens);
    part.sum.backward();
    total.mean += part.sum.item();
    total.tokens += part.tokens;
  }
  const double share = 1.0 / static_cast<double>(std::max<std::int64_t>(total.tokens, 1));
  total.mean *= share;
  const NoGradGuard no_grad;
  for (const Tensor& parameter : parameters)
    if (const Tensor gradient = parameter.grad(); gradient.defined()) parameter.set_grad(gradient * share);
  return total;
}

std::string first_not_finite(const nn::Module& module) {
  const NoGradGuard no_grad;
  const auto is_faulty = [](const Tensor& x) { return x.defined() && all(isfinite(x)).item() == 0; };
  for (const auto& [name, parameter] : module.named_parameters())
    if (is_faulty(parameter)) return name + " (its value is not finite)";
  for (const auto& [name, parameter] : module.named_parameters())
    if (is_faulty(parameter.grad())) return name + " (its gradient is not finite)";
  return "";
}

TrainingResult train(nn::Module& module, optim::Optimizer& optimizer, const TrainerOptions& options) {
  check(options);
  return Run(module, optimizer, options).train();
}

}  // namespace tapegrad
