// A stretch of time that the profile of this thread counts, if there is a profile.
#pragma once
#include <cstdint>

namespace tapegrad::autograd {

class Entry;
class Recording;

/// Only the outermost span counts: what an operation computes by others is its own. Without a profile a span costs one
/// look at a thread-local pointer.
class Span {
 public:
  enum class Kind : std::uint8_t { forward, backward, outside };

  /// The operation `name` (a literal) is computed.
  explicit Span(const char* name) : Span(name, "", Kind::forward) {}
  /// The gradient of a recorded operation is passed on.
  explicit Span(const Entry& entry) : recording_(current_) {
    if (recording_) begin(entry);
  }
  /// Work that is no operation: "AdamW.step" is name + action, both literals.
  static Span outside(const char* name, const char* action = "") { return Span(name, action, Kind::outside); }
  ~Span() {
    if (recording_) end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  /// The operation was recorded as this entry.
  void recorded(const Entry& entry) const {
    if (recording_) note(entry);
  }
  /// Runs `release`; the memory that it lets go of was kept for this span's backward.
  template <class F>
  void keeping_until(F&& release) const {
    const std::int64_t before = recording_ ? bytes_now() : 0;
    release();
    if (recording_) note_bytes(before - bytes_now());
  }

 private:
  friend class profile;
  Span(const char* name, const char* action, Kind kind) : recording_(current_) {
    if (recording_) begin(name, action, kind);
  }
  void begin(const char* name, const char* action, Kind kind) const;
  void begin(const Entry& entry) const;
  void end() const noexcept;
  void note(const Entry& entry) const;
  void note_bytes(std::int64_t bytes) const;
  static std::int64_t bytes_now();

  Recording* recording_;
  static inline thread_local Recording* current_ = nullptr;
};

}  // namespace tapegrad::autograd
