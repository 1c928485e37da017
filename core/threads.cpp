#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <tapegrad/core/error.hpp>
#include <tapegrad/core/storage.hpp>
#include <tapegrad/core/threads.hpp>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tapegrad {
namespace core {
namespace {

/// Waits a moment before look number `look`. Now and then the core is offered to others: the thread that is waited for
/// may be one of them, when another program has taken the other cores.
void pause(unsigned look) {
  constexpr unsigned kOffer = 32;
#if defined(__x86_64__) || defined(__i386__)
  if (look % kOffer != kOffer - 1) return _mm_pause();
#endif
  std::this_thread::yield();
}

/// How often a waiting thread looks before it sleeps: some tens of microseconds, longer than the gap between two
/// kernels.
constexpr unsigned kLooks = 20000;

thread_local bool inside_task = false;

/// The call that is being worked on. Threads join it while it is open; the caller closes it when no task is left and
/// then waits only for those that joined, so that a thread that the system has put to sleep holds up nobody.
struct Call {
  void (*run)(void*, std::int64_t) = nullptr;
  void* context = nullptr;
  std::int64_t tasks = 0;
  std::atomic<std::int64_t> next{0};
  std::mutex error_mutex;
  std::exception_ptr error;

  void work() {
    inside_task = true;
    for (std::int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
      try {
        run(context, task);
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
    }
    inside_task = false;
  }
};

class Team {
 public:
  explicit Team(int threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      stop();
      throw Error("threads: the system can't start " + std::to_string(threads) + " threads; set_num_threads to fewer");
    }
  }
  ~Team() { stop(); }
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void run(std::int64_t tasks, void (*run)(void*, std::int64_t), void* context) {
    call_.run = run;
    call_.context = context;
    call_.tasks = tasks;
    call_.next.store(0, std::memory_order_relaxed);
    joined_.store(kOpen, std::memory_order_release);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    call_.work();
    joined_.fetch_and(~kOpen, std::memory_order_acq_rel);
    for (unsigned looks = 0; joined_.load(std::memory_order_acquire) != 0; ++looks) pause(looks);
    if (call_.error) std::rethrow_exception(std::exchange(call_.error, nullptr));
  }

 private:
  static constexpr std::uint32_t kOpen = 1u << 31;

  void stop() {
    stop_ = true;
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void serve() {
    for (std::uint32_t seen = 0;;) {
      std::uint32_t epoch = epoch_.load(std::memory_order_acquire);
      for (unsigned looks = 0; epoch == seen && looks < kLooks; ++looks) {
        pause(looks);
        epoch = epoch_.load(std::memory_order_acquire);
      }
      if (epoch == seen) {
        epoch_.wait(seen);
        continue;
      }
      seen = epoch;
      if (stop_) return;
      if (!join()) continue;
      call_.work();
      memory::current();  // what this worker took and gave back is counted before its caller goes on
      joined_.fetch_sub(1, std::memory_order_release);
    }
  }
  bool join() {
    std::uint32_t joined = joined_.load(std::memory_order_acquire);
    while (joined & kOpen)
      if (joined_.compare_exchange_weak(joined, joined + 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  std::vector<std::thread> workers_;
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint32_t> joined_{0};
  std::atomic<bool> stop_{false};
  Call call_;
};

int default_threads() {
  if (const char* text = std::getenv("TAPEGRAD_NUM_THREADS")) {
    char* end = nullptr;
    const long threads = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && threads >= 1 && threads <= 1024) return static_cast<int>(threads);
    throw ValueError("TAPEGRAD_NUM_THREADS: must be a number of threads from 1 to 1024; got '" + std::string(text) +
                     "'");
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::atomic<int> thread_setting{0};

/// The team, and the lock that its one caller at a time holds. After a fork the child has no threads: it starts anew.
struct TeamOwner {
  std::mutex busy;
  std::unique_ptr<Team> team;

  static TeamOwner& get() {
    static TeamOwner* owner = [] {
      pthread_atfork(nullptr, nullptr, [] { current() = new TeamOwner; });
      return nullptr;
    }();
    (void)owner;
    return *current();
  }

 private:
  static TeamOwner*& current() {
    static TeamOwner* owner = new TeamOwner;
    return owner;
  }
};

}  // namespace

void parallel_run(std::int64_t tasks, void (*run)(void*, std::int64_t), void* context) {
  if (tasks > 1 && !inside_task && num_threads() > 1) {
    TeamOwner& owner = TeamOwner::get();
    std::unique_lock busy(owner.busy, std::try_to_lock);
    if (busy) {
      if (!owner.team || owner.team->threads() != num_threads()) {
        owner.team.reset();
        owner.team = std::make_unique<Team>(num_threads());
      }
      return owner.team->run(tasks, run, context);
    }
  }
  for (std::int64_t task = 0; task < tasks; ++task) run(context, task);
}

}  // namespace core

int num_threads() {
  int threads = core::thread_setting.load(std::memory_order_relaxed);
  if (threads == 0) {
    threads = core::default_threads();
    core::thread_setting.store(threads, std::memory_order_relaxed);
  }
  return threads;
}

void set_num_threads(int threads) {
  if (threads < 1 || threads > 1024)
    throw ValueError("set_num_threads: must be from 1 to 1024; got " + std::to_string(threads));
  core::thread_setting.store(threads, std::memory_order_relaxed);
}

}  // namespace tapegrad
