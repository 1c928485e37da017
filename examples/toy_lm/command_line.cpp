#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/threads.hpp>

#include "attention.hpp"
#include "bad_input.hpp"
#include "generation.hpp"
#include "info.hpp"
#include "recipe.hpp"
#include "resume.hpp"
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

void add_model_options(CLI::App& app, GptConfig& options) {
  app.add_option("--context", options.context, "tokens in a window");
  app.add_option("--layers", options.layers, "transformer blocks");
  app.add_option("--heads", options.heads, "attention heads in a block; must divide the width");
  app.add_option("--width", options.width, "width of the model");
  app.add_option("--blocks", options.blocks,
                 "gpt2, or modern: rotary positions, RMSNorm, SwiGLU, normalised queries and keys")
      ->check(CLI::IsMember({"gpt2", "modern"}))
      ->type_name("KIND");
  app.add_option("--dropout", options.dropout, "probability of dropping a value, in training");
}

void add_optimizer_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--optimizer", options.optimizer,
                 "adamw, muon (of the blocks' matrices, beside AdamW for the rest), sgd (with momentum), adam, lion or "
                 "rmsprop")
      ->check(CLI::IsMember({"adamw", "muon", "sgd", "adam", "lion", "rmsprop"}))
      ->type_name("NAME");
  app.add_option("--lr", options.lr, "highest learning rate; lion wants about a fifth of AdamW's, sgd fifty times it");
  app.add_option("--muon-lr", options.muon_lr, "highest learning rate of Muon's matrices");
  app.add_option("--min-lr", options.min_lr, "learning rate at the end of the cosine");
  app.add_option("--warmup", options.warmup, "steps of linear warm-up; not more than all steps");
  app.add_option("--schedule-steps", options.schedule_steps,
                 "steps until the rate is --min-lr, where it stays; 0: --steps. A resumed run keeps it, whatever its "
                 "--steps");
  app.add_option("--weight-decay", options.weight_decay, "decay, of matrices only");
  app.add_option("--beta2", options.beta2, "the second beta");
  app.add_option("--clip", options.clip, "largest norm of all gradients together");
  app.add_option(
      "--ema", options.ema,
      "decay of an exponential average of the weights, which is evaluated and saved in their place; 0: none");
}

void add_train_options(CLI::App& app, TrainOptions& options, std::optional<int>& threads, bool& verify) {
  app.add_option(
         "--text", options.text,
         "UTF-8 files, learnt as they are, one after the other; without it: sentences from the built-in grammar")
      ->check(a_path)
      ->type_name("FILE ...");
  app.add_option("--tokenizer", options.tokenizer, "char, or bpe: frequent pairs of bytes, and pairs of pairs")
      ->check(CLI::IsMember({"char", "bpe"}))
      ->type_name("KIND");
  app.add_option("--vocabulary", options.vocabulary, "most tokens of --tokenizer bpe; at least 256");
  CLI::Option* out = app.add_option("--out", options.out,
                                    "folder for model.safetensors, metrics.csv, report.html and checkpoint.safetensors")
                         ->check(a_path)
                         ->type_name("DIR");
  CLI::Option* resume = app.add_option_function<std::string>(
                               "--resume",
                               [&options](const std::string& folder) {
                                 options.out = folder;
                                 options.resume = true;
                               },
                               "go on from the checkpoint in this folder, with its text and settings; --steps may be "
                               "more than before, and "
                               "the other options that are given must be what they were")
                            ->check(a_path)
                            ->type_name("DIR")
                            ->excludes(out);
  CLI::Option* overwrite =
      app.add_flag("--overwrite", options.overwrite, "remove the run that is in the folder of --out, and start anew")
          ->excludes(resume);
  app.add_flag("--verify-resume", verify,
               "keep nothing, but prove that the run in one piece and the same run resumed in a new process after half "
               "of its steps end in the same bits")
      ->excludes(out)
      ->excludes(overwrite)
      ->excludes(resume);
  app.add_flag("--part-of-proof", options.proof)->group("");  // what --verify-resume gives the runs that it starts
  app.add_option_function<std::string>(
         "--recipe", [&options](const std::string&) { use_best_recipe(options); },
         "best: --blocks, --optimizer, rates, decay and --ema as they learn most in the same steps with no more "
         "parameters; options that are given beside it count")
      ->check(CLI::IsMember({"best"}))
      ->type_name("NAME")
      ->trigger_on_parse()
      ->excludes(resume);
  app.add_option("--steps", options.steps, "training steps");
  app.add_option("--batch", options.batch, "windows of text in a step");
  app.add_option("--accumulate", options.accumulate,
                 "parts that a batch is computed in, one after the other, to need less memory; must divide --batch");
  add_model_options(app, options.model);
  add_optimizer_options(app, options);
  app.add_option(
      "--eval-every", options.eval_every,
      fmt::format("steps between evaluations, each over the same {} windows of the validation part and saving "
                  "the model; the last one is over the whole part",
                  kEvaluationWindows));
  app.add_option("--save-every", options.save_every, "steps between checkpoints; 0: --eval-every");
  app.add_option("--seed", options.seed, "of the model, the windows and the built-in corpus");
  app.add_option("--threads", threads, "threads to compute with; by default TAPEGRAD_NUM_THREADS, else all cores");
}

void add_generate_options(CLI::App& app, GenerateOptions& options) {
  app.add_option("--from", options.from, "folder that 'train' wrote")->check(a_path)->type_name("DIR");
  app.add_option("--prompt", options.prompt, "text to go on from, in UTF-8; may be empty or longer than the context");
  app.add_option("--tokens", options.tokens,
                 "tokens to add: characters, unless the model was trained with --tokenizer bpe");
  app.add_option("--temperature", options.sampler.temperature, "below 1 is more cautious; 0 takes the likeliest");
  app.add_option("--top-k", options.sampler.top_k, "choose among so many of the likeliest; 0: among all");
  app.add_option("--seed", options.seed, "the same seed writes the same text");
}

void add_attention_options(CLI::App& app, AttentionOptions& options) {
  app.add_option("--from", options.from, "folder that 'train' wrote")->check(a_path)->type_name("DIR");
  app.add_option("--prompt", options.prompt, "text to read, in UTF-8; of a longer one the last tokens that fit");
  app.add_option("--html", options.html, "write a page to explore in a browser, too")->check(a_path)->type_name("FILE");
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

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::function<void()> parse_command_line(int argc, char** argv) {
  CLI::App app{"A small language model, trained from scratch with tapegrad", "toy_lm"};
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  TrainOptions train_options;
  GenerateOptions generate_options;
  std::optional<int> threads;
  bool verify = false;
  CLI::App* train_command = app.add_subcommand("train", "Learn a text");
  add_train_options(*train_command, train_options, threads, verify);
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
    throw BadInput(first_line(error.what()) + "; see toy_lm --help and toy_lm COMMAND --help");
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
  if (threads && (*threads < 1 || *threads > 1024))
    throw BadInput(fmt::format("--threads: must be from 1 to 1024; got {}", *threads));
  if (train_options.resume)
    adopt_options(train_options, [&](const std::string& name) { return train_command->count(name) > 0; });
  train_options.resume_command =
      fmt::format("{} train --resume {}{}", shell_quoted(argv[0]), shell_quoted(train_options.out),
                  threads ? fmt::format(" --threads {}", *threads) : "");
  return [train_options, threads, verify] {
    choose_threads(threads);
    verify ? verify_resume(train_options, threads) : train(train_options);
  };
}

}  // namespace toy_lm
