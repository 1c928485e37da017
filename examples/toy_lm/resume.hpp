// What a training run leaves in its folder to go on from.
#pragma once
#include <functional>
#include <string>

#include <tapegrad/training/checkpoint.hpp>

#include "corpus.hpp"
#include "report.hpp"
#include "training.hpp"

namespace toy_lm {

std::string checkpoint_path(const std::string& folder);

/// What the checkpoint of a run says about it: its settings, and a fingerprint of its text.
tg::Metadata describe_run(const TrainOptions& options, const Corpus& corpus);

/// Gives a resumed run, whose folder is options.out, the options that its checkpoint notes down. `given` tells which
/// ones the command line named. BadInput if there is no checkpoint of toy_lm, or that names all given settings that
/// differ; more steps, other paths of the text and another --save-every are allowed.
void adopt_options(TrainOptions& options, const std::function<bool(const std::string& option)>& given);

/// What a run remembers beside what load_checkpoint puts back.
struct RunNotes {
  std::int64_t step = 0;
  double losses = 0;  // since the last evaluation
  std::int64_t losses_counted = 0;
  std::string rows;  // of the metrics
  History history;
  double tokens_per_second = 0;
};

void add_notes(tg::CheckpointNote& note, const RunNotes& notes);
/// Of the checkpoint in the folder. BadInput, which names the file, if they can't be those of a run on this text.
RunNotes read_notes(const std::string& folder, const Corpus& corpus);

}  // namespace toy_lm
