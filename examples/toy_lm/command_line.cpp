#include "command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/threads.hpp>

#include "arguments.hpp"
#include "attention.hpp"
#include "bad_input.hpp"
#include "generation.hpp"
#include "info.hpp"
#include "recipe.hpp"
#include "resume.hpp"
#include "settings.hpp"
#include "training.hpp"
#include "verify_resume.hpp"

namespace toy_lm {
namespace {

/// "" + "/model.safetensors" would be a file of the root folder.
const CLI::Validator a_path(
    [](const std::string& path) {
      return path.empty() ? "must be the name of a file or folder; got an empty one" : "";
    },
    "");

std::string help_of(const std::string& setting) {
  static const std::map<std::string, std::string> texts = {
      {"--tokenizer", "char, or bpe: frequent pairs of bytes, and pairs of pairs"},
      {"--vocabulary", "most tokens of --tokenizer bpe; at least 256"},
      {"--steps", "training steps"},
      {"--batch", "windows of text in a step"},
      {"--accumulate",
       "parts that a batch is computed in, one after the other, to need less memory; must divide --batch"},
      {"--context", "tokens in a window"},
      {"--layers", "transformer blocks"},
      {"--heads", "attention heads in a block; must divide the width"},
      {"--width", "width of the model"},
      {"--blocks", "gpt2, or modern: rotary positions, RMSNorm, SwiGLU, normalised queries and keys"},
      {"--dropout", "probability of dropping a value, in training"},
      {"--optimizer",
       "adamw, muon (of the blocks' matrices, beside AdamW for the rest), sgd (with momentum), adam, lion or rmsprop"},
      {"--lr", "highest learning rate; lion wants about a fifth of AdamW's, sgd fifty times it"},
      {"--muon-lr", "highest learning rate of Muon's matrices"},
      {"--min-lr", "learning rate at the end of the cosine; by default a tenth of --lr"},
      {"--warmup", "steps of linear warm-up, not more than all steps; by default 100, or all if they are fewer"},
      {"--schedule-steps",
       "steps until the rate is --min-lr, where it stays; 0: --steps. A resumed run keeps it, whatever its --steps"},
      {"--weight-decay", "decay, of matrices only"},
      {"--beta2", "the second beta"},
      {"--clip", "largest norm of all gradients together"},
      {"--ema", "decay of an exponential average of the weights, which is evaluated and saved in their place; 0: none"},
      {"--eval-every",
       fmt::format("steps between evaluations, each over the same {} windows of the validation part and "
                   "saving the model; the last one is over the whole part",
                   kEvaluationWindows)},
      {"--save-every", "steps between checkpoints; 0: --eval-every"},
      {"--seed", "of the model, the windows and the built-in corpus"}};
  return texts.at(setting);
}

void add_train_options(CLI::App& app, TrainOptions& options, std::int64_t& threads, bool& verify) {
  app.add_option(
         "--text", options.text,
         "UTF-8 files, learnt as they are, one after the other; without it: sentences from the built-in grammar")
      ->check(a_path)
      ->type_name("FILE ...");
  app.add_option("--out", options.out,
                 "folder for model.safetensors, metrics.csv, report.html and checkpoint.safetensors")
      ->check(a_path)
      ->type_name("DIR");
  app.add_option_function<std::string>(
         "--resume",
         [&options](const std::string& folder) {
           options.out = folder;
           options.resume = true;
         },
         "go on from the checkpoint in this folder, with its text and settings; --steps may be "
         "more than before, and "
         "the other options that are given must be what they were")
      ->check(a_path)
      ->type_name("DIR");
  app.add_flag("--overwrite", options.overwrite, "remove the run that is in the folder of --out, and start anew")
      ->disable_flag_override();
  app.add_flag("--verify-resume", verify,
               "keep nothing, but prove that the run in one piece and the same run resumed in a new process after half "
               "of its steps end in the same bits")
      ->disable_flag_override();
  app.add_flag("--part-of-proof", options.proof)->group("");  // what --verify-resume gives the runs that it starts
  app.add_option_function<std::string>(
         "--recipe",
         [&options](const std::string& name) {
           if (name != "best") throw CLI::ValidationError("--recipe", "must be best; got '" + name + "'");
           use_best_recipe(options);
         },
         "best: --blocks, --optimizer, rates, decay and --ema as they learn most in the same steps with no more "
         "parameters; options that are given beside it count")
      ->type_name("NAME")
      ->trigger_on_parse();
  each_setting(options, [&](const char* option, auto& value, const auto& range) {
    arguments::add(app, option, value, range, help_of(option));
  });
  for (const char* option : {"--min-lr", "--warmup"}) app.get_option(option)->default_str("");
  arguments::add(app, "--threads", threads, arguments::Whole{1, 1024},
                 "threads to compute with; by default TAPEGRAD_NUM_THREADS, else all cores")
      ->default_str("");
}

void add_generate_options(CLI::App& app, GenerateOptions& options) {
  app.add_option("--from", options.from, "folder that 'train' wrote")->check(a_path)->type_name("DIR");
  app.add_option("--prompt", options.prompt, "text to go on from, in UTF-8; may be empty or longer than the context");
  using namespace arguments;
  add(app, "--tokens", options.tokens, Whole{0},
      "tokens to add: characters, unless the model was trained with --tokenizer bpe");
  add(app, "--temperature", options.sampler.temperature, kNotNegative,
      "below 1 is more cautious; 0 takes the likeliest");
  add(app, "--top-k", options.sampler.top_k, Whole{0}, "choose among so many of the likeliest; 0: among all");
  add(app, "--seed", options.seed, Whole{0}, "the same seed writes the same text");
}

void add_attention_options(CLI::App& app, AttentionOptions& options) {
  app.add_option("--from", options.from, "folder that 'train' wrote")->check(a_path)->type_name("DIR");
  app.add_option("--prompt", options.prompt, "text to read, in UTF-8; of a longer one the last tokens that fit");
  app.add_option("--html", options.html, "write a page to explore in a browser, too")->check(a_path)->type_name("FILE");
}

/// CLI11's excludes() would not say why.
void check_together(const CLI::App& train) {
  constexpr const char* kReasons[][3] = {
      {"--resume", "--out", "a resumed run stays in its folder"},
      {"--resume", "--overwrite", "a resumed run goes on with what is there"},
      {"--resume", "--recipe", "a resumed run keeps the settings that it began with"},
      {"--verify-resume", "--resume", "it trains a run of its own from the start"},
      {"--verify-resume", "--out", "it keeps nothing"},
      {"--verify-resume", "--overwrite", "it keeps nothing"}};
  for (const auto& [option, other, reason] : kReasons)
    if (train.count(option) > 0 && train.count(other) > 0)
      throw BadInput(fmt::format("{}: can't be given with {}; {}; leave one of them out", option, other, reason));
}

/// What --threads says, else what the environment says.
void choose_threads(std::optional<int> threads) {
  try {
    threads ? tapegrad::set_num_threads(*threads) : static_cast<void>(tapegrad::num_threads());
  } catch (const tapegrad::ValueError& error) {
    throw BadInput(error.what());
  }
}

/// As one word of a shell.
std::string shell_quoted(const std::string& text) {
  if (!text.empty() &&
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=+,:") == text.npos)
    return text;
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

/// What a command line leaves to the other options, and what it must not say beside them.
void settle(TrainOptions& options, const std::function<bool(const std::string& option)>& given) {
  each_setting(options, [&](const std::string& option, const auto&, const auto&) {
    if (given(option) && !counts(option, options))
      throw BadInput(
          fmt::format("{}: must be left out where nothing uses it; got it with --tokenizer {} and --optimizer {}",
                      option, options.tokenizer, options.optimizer));
  });
  if (options.resume) return;
  const std::int64_t all = options.schedule_steps > 0 ? options.schedule_steps : options.steps;
  if (given("--warmup") && options.warmup > all)
    throw BadInput(fmt::format("--warmup: must be at most {}, all steps of the schedule; got {}", all, options.warmup));
  options.warmup = std::min(options.warmup, all);
  if (!given("--min-lr") && !given("--recipe")) options.min_lr = options.lr / 10;
}

std::string complaint_of(const CLI::App& app, const std::vector<CLI::App*>& commands, const CLI::ParseError& error) {
  if (app.get_subcommands().empty()) {
    const std::vector<std::string> arguments = app.remaining();
    std::vector<std::string> names;
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    return fmt::format("the first argument must be one of {}; got {}; see toy_lm --help", fmt::join(names, ", "),
                       arguments.empty() ? "none" : "'" + arguments[0] + "'");
  }
  return fmt::format("{}; see toy_lm {} --help", arguments::complaint(app, error),
                     app.get_subcommands()[0]->get_name());
}

}  // namespace

std::function<void()> parse_command_line(int argc, char** argv) {
  CLI::App app{"A small language model, trained from scratch with tapegrad", "toy_lm"};
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  TrainOptions train_options;
  GenerateOptions generate_options;
  std::int64_t thread_count = 0;
  bool verify = false;
  CLI::App* train_command = app.add_subcommand("train", "Learn a text");
  add_train_options(*train_command, train_options, thread_count, verify);
  CLI::App* generate_command = app.add_subcommand("generate", "Write text with a trained model");
  add_generate_options(*generate_command, generate_options);
  AttentionOptions attention_options;
  CLI::App* attention_command = app.add_subcommand("attention", "Show what a trained model attends to in a text");
  add_attention_options(*attention_command, attention_options);
  std::string folder = "toy_lm-out";
  CLI::App* info_command = app.add_subcommand("info", "Show what a run has left: model, settings, files, losses");
  info_command->add_option("DIR", folder, "folder that 'train' wrote")->check(a_path);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help, std::cout, std::cerr);
    return {};
  } catch (const CLI::ParseError& error) {
    throw BadInput(complaint_of(app, {train_command, generate_command, attention_command, info_command}, error));
  }
  if (info_command->parsed()) return [folder] { show_run(folder); };
  if (attention_command->parsed())
    return [attention_options] {
      choose_threads({});
      show_attention(attention_options);
    };
  if (generate_command->parsed())
    return [generate_options] {
      choose_threads({});
      generate_text(generate_options);
    };
  const auto threads = thread_count > 0 ? std::optional(static_cast<int>(thread_count)) : std::nullopt;
  const auto given = [&](const std::string& name) { return train_command->count(name) > 0; };
  check_together(*train_command);
  if (train_options.resume) adopt_options(train_options, given);
  settle(train_options, given);
  train_options.resume_command =
      fmt::format("{} train --resume {}{}", shell_quoted(argv[0]), shell_quoted(train_options.out),
                  threads ? fmt::format(" --threads {}", *threads) : "");
  return [train_options, threads, verify] {
    choose_threads(threads);
    verify ? verify_resume(train_options, threads) : train(train_options);
  };
}

}  // namespace toy_lm
