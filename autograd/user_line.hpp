// Which line of the user's program is calling: for anomaly mode. Without it, a line costs one look at an atomic.
#pragma once
#include <atomic>
#include <version>
#ifdef __cpp_lib_source_location
#include <source_location>
#endif
#include <string>

namespace tapegrad {

#ifdef __cpp_lib_source_location
using SourceLocation = std::source_location;
#else
/// std::source_location, for compilers that lack it (Clang before 16).
class SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    SourceLocation location;
    location.file_ = file;
    location.line_ = line;
    return location;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }

 private:
  const char* file_ = "";
  unsigned line_ = 0;
};
#endif

namespace autograd {

/// While it lives, `where` is the line that this thread's operations are reported with, if anybody is in anomaly mode.
/// Lines of the library itself and of the standard library are none: the line that called them stays. A line ends with
/// its object, so an operation whose line nobody gave has that of the expression around it, or none; never an older
/// one.
class UserLine {
 public:
  UserLine() = default;
  explicit UserLine(SourceLocation where) : noted_(wanted.load(std::memory_order_relaxed) && note(where)) {}
  ~UserLine() {
    if (noted_) forget();
  }
  UserLine(const UserLine&) = delete;
  UserLine& operator=(const UserLine&) = delete;

  /// The innermost line; line() is 0 if there is none.
  static SourceLocation current();
  /// " at train.cpp:17", or "".
  static std::string text(SourceLocation where);

  /// How many guards (see anomaly.hpp) there are in the program; one more if the environment turns the mode on.
  static inline std::atomic<int> wanted{0};

 private:
  static bool note(SourceLocation where);
  static void forget() noexcept;

  bool noted_ = false;
};

}  // namespace autograd
}  // namespace tapegrad
