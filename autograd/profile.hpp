// Where the time and the memory of a step go: by operation, by module, and as a trace.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tapegrad::autograd {

class Recording;

/// What a profile says of one operation, or of one module.
struct ProfileRow {
  std::string name;
  /// How often it ran forward; 0 for a module that is never called itself, as a list of layers.
  std::int64_t calls = 0;
  /// For an operation: to compute its value and to record it. For what is no operation ("AdamW.step"): its time.
  double forward_ms = 0;
  /// To run its backward function and to add its gradients up.
  double backward_ms = 0;
  /// What it alone still kept for its backward when that had run: the drop of memory::current() as the sweep lets go of
  /// it, so a value that several operations keep counts for the last to be swept. 0 if the graph was retained.
  std::int64_t bytes_kept = 0;
  /// Of the time since the profile began.
  double share = 0;
};

/// While it lives it records all that its thread computes:
///
///     autograd::profile profile;
///     train_one_step();
///     std::cout << profile.table();
///
/// To be destroyed on the thread that made it. An operation that computes by others, and whatever runs inside a
/// backward function, counts as one. Other threads' frees may show in bytes_kept.
class profile {
 public:
  /// ValueError if this thread has one already.
  profile();
  ~profile();
  profile(const profile&) = delete;
  profile& operator=(const profile&) = delete;

  /// By total time, most first; at last "(other)", the time outside all of them: the shares add up to 1.
  std::vector<ProfileRow> operations() const;
  /// By the dotted path that a module is called by, each with all that is inside it, most time first: "(all)" stands
  /// for every operation, in a module or not; at last "(other)", what is no operation.
  std::vector<ProfileRow> modules() const;
  /// Both tables as text of at most 100 columns.
  std::string table() const;
  /// Chrome's trace-event JSON, which chrome://tracing and ui.perfetto.dev show; modules enclose their operations.
  /// FileError if it can't be written.
  void save_chrome_trace(const std::string& path) const;

 private:
  std::unique_ptr<Recording> recording_;
};

}  // namespace tapegrad::autograd
