// Ctrl-C as a request that a run answers when it can.
#pragma once

namespace toy_lm {

/// The run has stopped because it was asked to, and can go on later.
struct Interrupted {
  int signal;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP (if it is not ignored, as under nohup) only leave a note, and a pipe
/// that nobody reads any more is an error of the call that writes to it. One at a time.
class InterruptGuard {
 public:
  /// With an answer, which the first SIGINT or SIGTERM prints to stderr at once, the second ends the process as usual.
  explicit InterruptGuard(const char* answer = nullptr);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that came; 0 if none did.
  int requested() const;
  /// Throws Interrupted if one came.
  void heed() const;
};

}  // namespace toy_lm
