#include <pthread.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>

#include <tapegrad/core/error.hpp>
#include <tapegrad/core/storage.hpp>

namespace tapegrad {
namespace core {
namespace {

#if defined(__SANITIZE_ADDRESS__)
#define TAPEGRAD_PLAIN_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TAPEGRAD_PLAIN_MEMORY 1
#endif
#endif
#ifdef TAPEGRAD_PLAIN_MEMORY
constexpr bool kPooled = false;  // the sanitizer sees each block's end of life only if none is reused
#else
constexpr bool kPooled = true;
#endif

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmall = 4096;  // up to here blocks are cut from slabs and cached by each thread
constexpr std::size_t kSlab = std::size_t{1} << 16;
constexpr std::size_t kLargest = std::size_t{1} << 46;
constexpr int kSmallClasses = 16 + 8 * 2;  // the classes of those blocks
constexpr int kClasses = 16 + 8 * 36;
constexpr std::uint32_t kMostCached = 8192;  // blocks of one class that a thread keeps for itself

std::atomic<std::int64_t> current_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};
std::atomic<std::int64_t> system_calls{0};

/// Classes: multiples of 64 up to 1 KiB, then eight to each power of two.
int class_of(std::size_t bytes) {
  if (bytes <= 1024) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
  const int exponent = std::bit_width(bytes - 1) - 1;  // bytes in (2^exponent, 2^(exponent + 1)]
  return 16 + 8 * (exponent - 10) + static_cast<int>((bytes - 1 - (std::size_t{1} << exponent)) >> (exponent - 3));
}
std::size_t bytes_of(int size_class) {
  if (size_class < 16) return 64 * (static_cast<std::size_t>(size_class) + 1);
  const int exponent = 10 + (size_class - 16) / 8;
  return (std::size_t{1} << exponent) + (static_cast<std::size_t>((size_class - 16) % 8 + 1) << (exponent - 3));
}

struct Block {
  Block* next;
};

/// Free blocks that belong to no thread. It is never destroyed: tensors in static variables outlive everything.
struct SharedPool {
  std::mutex mutex;
  std::array<Block*, kClasses> free{};
  std::byte* slab = nullptr;
  std::size_t slab_left = 0;

  void* take(int size_class) {
    std::lock_guard lock(mutex);
    if (Block* block = free[size_class]) {
      free[size_class] = block->next;
      return block;
    }
    return size_class < kSmallClasses ? cut(bytes_of(size_class)) : ask_system(bytes_of(size_class));
  }
  void give(int size_class, void* memory) {
    std::lock_guard lock(mutex);
    free[size_class] = new (memory) Block{free[size_class]};
  }

 private:
  void* cut(std::size_t bytes) {
    if (slab_left < bytes) {
      slab = static_cast<std::byte*>(ask_system(kSlab));
      slab_left = slab ? kSlab : 0;
      if (!slab) return nullptr;
    }
    void* block = slab;
    slab += bytes;
    slab_left -= bytes;
    return block;
  }
  void* ask_system(std::size_t bytes) {
    system_calls.fetch_add(1, std::memory_order_relaxed);
    if (void* memory = std::aligned_alloc(kAlignment, bytes)) return memory;
    release_everything();
    return std::aligned_alloc(kAlignment, bytes);
  }
  void release_everything() {
    for (int size_class = kSmallClasses; size_class < kClasses; ++size_class)
      while (Block* block = free[size_class]) {
        free[size_class] = block->next;
        std::free(block);
      }
  }
};

/// No other thread is in its midst when the process forks: the child would find it locked for ever.
SharedPool& shared_pool() {
  static SharedPool& pool = *[] {
    pthread_atfork([] { shared_pool().mutex.lock(); }, [] { shared_pool().mutex.unlock(); },
                   [] { shared_pool().mutex.unlock(); });
    return new SharedPool;
  }();
  return pool;
}

/// Small free blocks of one thread: no lock on the way of small tensors and tape entries.
struct ThreadCache {
  std::array<Block*, kSmallClasses> free{};
  std::array<std::uint32_t, kSmallClasses> count{};
  ~ThreadCache();
};
thread_local bool cache_is_gone = false;
thread_local ThreadCache cache;

ThreadCache::~ThreadCache() {
  cache_is_gone = true;
  for (int size_class = 0; size_class < kSmallClasses; ++size_class)
    while (Block* block = free[size_class]) {
      free[size_class] = block->next;
      shared_pool().give(size_class, block);
    }
}

/// Each thread reports to the common counters when it has gathered this much: an atomic addition for every small tensor
/// would cost more than its arithmetic.
constexpr std::int64_t kReportEvery = 1 << 16;

struct UnreportedBytes {
  std::int64_t bytes = 0;
  ~UnreportedBytes() { report(); }
  void add(std::int64_t change) {
    bytes += change;
    if (bytes >= kReportEvery || bytes <= -kReportEvery) report();
  }
  void report() {
    if (bytes == 0) return;
    const std::int64_t now = current_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    bytes = 0;
    std::int64_t peak = peak_bytes.load(std::memory_order_relaxed);
    while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
};
thread_local UnreportedBytes unreported;

/// Numbers that are never used twice; each thread takes them from the common counter in large pieces.
std::uint64_t next_birth() {
  static std::atomic<std::uint64_t> common{1};
  constexpr std::uint64_t kPiece = 1 << 20;
  thread_local std::uint64_t next = 0, end = 0;
  if (next == end) {
    next = common.fetch_add(kPiece, std::memory_order_relaxed);
    end = next + kPiece;
  }
  return next++;
}

}  // namespace

void* pool_allocate(std::size_t bytes) {
  const int size_class = bytes > kLargest ? 0 : class_of(bytes);
  if (kPooled && bytes <= kSmall && !cache_is_gone) {
    if (Block* block = cache.free[size_class]) {
      cache.free[size_class] = block->next;
      --cache.count[size_class];
      return block;
    }
  }
  void* memory = nullptr;
  if (bytes <= kLargest)
    memory = kPooled ? shared_pool().take(size_class) : std::aligned_alloc(kAlignment, bytes_of(size_class));
  if (!memory)
    throw Error("memory: " + std::to_string(bytes) + " bytes can't be had from the system; use smaller shapes");
  return memory;
}

void pool_free(void* memory, std::size_t bytes) noexcept {
  if constexpr (!kPooled) return std::free(memory);
  const int size_class = class_of(bytes);
  if (bytes <= kSmall && !cache_is_gone && cache.count[size_class] < kMostCached) {
    cache.free[size_class] = new (memory) Block{cache.free[size_class]};
    ++cache.count[size_class];
    return;
  }
  shared_pool().give(size_class, memory);
}

Storage::Storage(std::size_t bytes) : birth_(next_birth()), bytes_(bytes) {
  unreported.add(static_cast<std::int64_t>(bytes));
}

Storage* Storage::create(std::size_t bytes) { return new (pool_allocate(bytes + header(bytes))) Storage(bytes); }

void Storage::destroy() noexcept {
  const std::size_t bytes = bytes_;
  unreported.add(-static_cast<std::int64_t>(bytes));
  this->~Storage();
  pool_free(this, bytes + header(bytes));
}

}  // namespace core

namespace memory {
std::int64_t current() {
  core::unreported.report();
  return core::current_bytes.load();
}
std::int64_t peak() {
  core::unreported.report();
  return core::peak_bytes.load();
}
void reset_peak() { core::peak_bytes.store(current()); }
std::int64_t system_allocations() { return core::system_calls.load(); }
}  // namespace memory
}  // namespace tapegrad
