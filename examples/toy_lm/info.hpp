// What is in the folder of a run.
#pragma once
#include <string>

namespace toy_lm {

/// Prints the model as a tree, the settings of the run, the files with their sizes, and the losses. BadInput if there
/// is no model, or one or a checkpoint that is damaged.
void show_run(const std::string& folder);

}  // namespace toy_lm
