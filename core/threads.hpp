// One team of threads for everything: kernels and matrix products.
#pragma once
#include <cstdint>
#include <type_traits>

namespace tapegrad {

/// Threads that all operations together may use; at least 1. The default is TAPEGRAD_NUM_THREADS, else all cores.
/// Results are the same, bit for bit, for every setting.
void set_num_threads(int threads);
int num_threads();

namespace core {

void parallel_run(std::int64_t tasks, void (*run)(void* context, std::int64_t task), void* context);

/// f(i) for i in [0, tasks), on the team if it is free and `tasks` > 1, else on this thread. How work is cut into tasks
/// must depend on shapes alone, and no sum may be split differently by the number of threads. The first exception that
/// a task throws is rethrown here after all tasks have ended.
template <class F>
void parallel_for(std::int64_t tasks, F&& f) {
  using Function = std::remove_reference_t<F>;
  parallel_run(
      tasks, [](void* context, std::int64_t task) { (*static_cast<Function*>(context))(task); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

/// Cuts [0, size) into pieces of `grain` (the last may be shorter) and calls f(begin, end) for each, in parallel.
template <class F>
void parallel_ranges(std::int64_t size, std::int64_t grain, F&& f) {
  if (size <= grain) {
    if (size > 0) f(std::int64_t{0}, size);
    return;
  }
  parallel_for((size + grain - 1) / grain, [&](std::int64_t i) {
    const std::int64_t end = (i + 1) * grain;
    f(i * grain, end < size ? end : size);
  });
}

}  // namespace core
}  // namespace tapegrad
