// Ctrl-C as a request that a run answers when it can.
#pragma once

namespace toy_lm {

/// The run has stopped because it was asked to, and can go on later.
struct Interrupted {
  int signal;
};

/// While it lives, the first SIGINT or SIGTERM only leaves a note; the second ends the process as usual. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that came; 0 if none did.
  int requested() const;
};

}  // namespace toy_lm
