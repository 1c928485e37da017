// Training from a text to a model in a folder.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "corpus.hpp"
#include "model.hpp"

namespace toy_lm {

struct TrainOptions {
  std::vector<std::string> text;  // none: the built-in corpus
  std::string out = "toy_lm-out";
  std::string tokenizer = "char";
  std::int64_t vocabulary = 512;  // tokens of "bpe"
  std::int64_t steps = 2000;
  std::int64_t batch = 12;
  std::int64_t accumulate = 1;  // parts that a batch is computed in
  GptConfig model;              // its vocabulary comes from the text
  std::string optimizer = "adamw";
  double lr = 1e-3;
  double muon_lr = 0.02;
  double min_lr = 1e-4;
  std::int64_t warmup = 100;
  double weight_decay = 0.1;
  double beta2 = 0.99;
  double clip = 1.0;
  double ema = 0.0;                 // decay of the average of weights that is evaluated and saved; 0: none
  std::int64_t schedule_steps = 0;  // until the rate is min_lr, where it stays; 0: all steps
  std::int64_t eval_every = 250;
  std::int64_t save_every = 0;  // 0: eval_every
  std::int64_t seed = 1337;
  bool proof = false;          // part of --verify-resume: its folder goes, and so does a run that is asked to stop
  bool resume = false;         // go on from the checkpoint in `out`
  bool overwrite = false;      // remove the run that is in `out`
  std::string resume_command;  // what to tell the user to type when the run is stopped
};

/// The text of the run, as its options say. BadInput if it can't be used.
Corpus load_corpus(const TrainOptions& options);

/// Windows of the validation part that evaluations on the way look at; the last one looks at all of them.
inline constexpr std::int64_t kEvaluationWindows = 256;

/// BadInput, before anything is trained or written, if the options, the text, the folder or the checkpoint can't be
/// used. Stops with std::runtime_error if loss, gradient or weights are not finite; the model that the last evaluation
/// saved and the last checkpoint stay. Interrupted after Ctrl-C, when a checkpoint is saved.
void train(TrainOptions options);

}  // namespace toy_lm
