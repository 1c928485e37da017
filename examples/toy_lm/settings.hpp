// The settings of a run by the names of their options: what a checkpoint notes down and a resumed run must share.
#pragma once
#include <map>
#include <string>

#include "training.hpp"

namespace toy_lm {

/// visit(option, value) for everything that decides what is learnt; what only says how long to go on, where, how often
/// to save and on how many threads is not among it.
template <class Options, class Visit>
void each_setting(Options& options, const Visit& visit) {
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
  visit("--seed", options.seed);
}

/// As texts that read_settings reads back to the last bit.
std::map<std::string, std::string> written_settings(const TrainOptions& options);
/// Sets all of them. BadInput for one that is missing or no value of its type.
void read_settings(TrainOptions& options, const std::map<std::string, std::string>& settings);

}  // namespace toy_lm
