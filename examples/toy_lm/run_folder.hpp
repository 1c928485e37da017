// The folder that a run writes to: one run at a time, and never two runs' files in it.
#pragma once
#include <string>

namespace toy_lm {

/// Held by this process alone while it lives, however that ends.
class RunFolder {
 public:
  /// Makes the folder if it is missing. BadInput, which names the option that gave it, if files can't be written there
  /// or another process holds it.
  RunFolder(const std::string& path, const std::string& option);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

 private:
  int lock_ = -1;
};

/// BadInput if the folder holds a run's checkpoint or model.
void expect_no_run(const std::string& folder);
/// Removes the files of the run in the folder, if there is one, and its page of attention.
void remove_run(const std::string& folder);

}  // namespace toy_lm
