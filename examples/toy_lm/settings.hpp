// The settings of a run by the names of their options: what a checkpoint notes down and a resumed run must share.
#pragma once
#include <map>
#include <string>

#include "training.hpp"

namespace toy_lm {

/// visit(option, value) for everything that a run is made of; where it lives, its text and its threads are not among
/// it.
template <class Options, class Visit>
void each_setting(Options& options, const Visit& visit) {
  visit("--steps", options.steps);
  visit("--tokenizer", options.tokenizer);
  visit("--vocabulary", options.vocabulary);
  visit("--batch", options.batch);
  visit("--accumulate", options.accumulate);
  visit("--context", options.model.context);
  visit("--layers", options.model.layers);
  visit("--heads", options.model.heads);
  visit("--width", options.model.width);
  visit("--blocks", options.model.blocks);
  visit("--dropout", options.model.dropout);
  visit("--optimizer", options.optimizer);
  visit("--lr", options.lr);
  visit("--muon-lr", options.muon_lr);
  visit("--min-lr", options.min_lr);
  visit("--warmup", options.warmup);
  visit("--schedule-steps", options.schedule_steps);
  visit("--weight-decay", options.weight_decay);
  visit("--beta2", options.beta2);
  visit("--clip", options.clip);
  visit("--ema", options.ema);
  visit("--eval-every", options.eval_every);
  visit("--save-every", options.save_every);
  visit("--seed", options.seed);
}

/// Those that a resumed run may have otherwise: they don't change what was learnt so far.
inline bool may_change(const std::string& option) { return option == "--steps" || option == "--save-every"; }

/// As texts that read_settings reads back to the last bit.
std::map<std::string, std::string> written_settings(const TrainOptions& options);
/// Sets all of them. BadInput for one that is missing or no value of its type.
void read_settings(TrainOptions& options, const std::map<std::string, std::string>& settings);

}  // namespace toy_lm
