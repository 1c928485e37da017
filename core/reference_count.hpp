// How many own an object. A program without a second thread does not pay for atomic additions, of which every small
// operation makes dozens.
#pragma once
#include <atomic>
#include <cstdint>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace tapegrad::core {

/// Begins at 1, for whoever made the object.
class ReferenceCount {
 public:
  void add() noexcept {
    if (no_other_thread())
      count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    else
      count_.fetch_add(1, std::memory_order_relaxed);
  }
  /// True if nobody is left.
  [[nodiscard]] bool drop() noexcept {
    if (!no_other_thread()) return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    const std::uint32_t left = count_.load(std::memory_order_relaxed) - 1;
    count_.store(left, std::memory_order_relaxed);
    return left == 0;
  }
  std::uint32_t value() const noexcept { return count_.load(std::memory_order_acquire); }

 private:
  /// The C library clears its flag before the first thread starts (by pthreads, as std::thread does; not by clone).
  static bool no_other_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
    return __libc_single_threaded;
#else
    return false;
#endif
  }

  std::atomic<std::uint32_t> count_{1};
};

}  // namespace tapegrad::core
