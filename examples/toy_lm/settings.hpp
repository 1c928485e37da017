// The settings of a run by the names of their options: what a checkpoint notes down and a resumed run must share.
#pragma once
#include <map>
#include <string>

#include "arguments.hpp"
#include "training.hpp"

namespace toy_lm {

/// visit(option, value, range) for everything that a run is made of; where it lives, its text and its threads are not
/// among it.
template <class Options, class Visit>
void each_setting(Options& options, const Visit& visit) {
  using namespace arguments;
  visit("--tokenizer", options.tokenizer, OneOf{{"char", "bpe"}});
  visit("--vocabulary", options.vocabulary, Whole{256, INT32_MAX});
  visit("--steps", options.steps, Whole{1});
  visit("--batch", options.batch, Whole{1});
  visit("--accumulate", options.accumulate, Whole{1});
  visit("--context", options.model.context, Whole{1});
  visit("--layers", options.model.layers, Whole{1});
  visit("--heads", options.model.heads, Whole{1});
  visit("--width", options.model.width, Whole{1});
  visit("--blocks", options.model.blocks, OneOf{{"gpt2", "modern"}});
  visit("--dropout", options.model.dropout, kBelowOne);
  visit("--optimizer", options.optimizer, OneOf{{"adamw", "muon", "sgd", "adam", "lion", "rmsprop"}});
  visit("--lr", options.lr, kPositive);
  visit("--muon-lr", options.muon_lr, kPositive);
  visit("--min-lr", options.min_lr, kNotNegative);
  visit("--warmup", options.warmup, Whole{0});
  visit("--schedule-steps", options.schedule_steps, Whole{0});
  visit("--weight-decay", options.weight_decay, kNotNegative);
  visit("--beta2", options.beta2, kBelowOne);
  visit("--clip", options.clip, kPositive);
  visit("--ema", options.ema, kBelowOne);
  visit("--eval-every", options.eval_every, Whole{1});
  visit("--save-every", options.save_every, Whole{0});
  visit("--seed", options.seed, Whole{0});
}

/// Those that a resumed run may have otherwise: they don't change what was learnt so far.
inline bool may_change(const std::string& option) { return option == "--steps" || option == "--save-every"; }

/// Whether the setting changes anything beside the others: some belong to one tokenizer or to some optimizers.
inline bool counts(const std::string& option, const TrainOptions& options) {
  if (option == "--vocabulary") return options.tokenizer == "bpe";
  if (option == "--muon-lr") return options.optimizer == "muon";
  return option != "--beta2" || options.optimizer != "sgd";
}

/// As texts that read_settings reads back to the last bit.
std::map<std::string, std::string> written_settings(const TrainOptions& options);
/// Sets all of them. BadInput for one that is missing or no value of its type.
void read_settings(TrainOptions& options, const std::map<std::string, std::string>& settings);

}  // namespace toy_lm
