// Memory of arrays: reference-counted blocks from a caching pool, 64-byte aligned unless tiny. A steady training loop
// takes every block from the pool and asks the system for nothing.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <tapegrad/core/reference_count.hpp>

namespace tapegrad {
namespace core {

/// Memory for small objects and arrays alike: 64-byte aligned, reused from a cache that each thread keeps. Error if
/// there is none.
void* pool_allocate(std::size_t bytes);
void pool_free(void* memory, std::size_t bytes) noexcept;

/// A counted block of bytes. `birth` is never used twice; `version` grows with each write after the first.
class Storage {
 public:
  static Storage* create(std::size_t bytes);

  std::byte* data() { return reinterpret_cast<std::byte*>(this) + header(bytes_); }
  std::size_t bytes() const { return bytes_; }
  std::uint64_t birth() const { return birth_; }
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }
  bool unique() const { return references_.value() == 1; }

  void retain() { references_.add(); }
  void release() noexcept {
    if (references_.drop()) destroy();
  }

 private:
  /// Up to 32 bytes of data share the header's cache line; more begin at the next one.
  static constexpr std::size_t header(std::size_t bytes) { return bytes <= 32 ? 32 : 64; }
  explicit Storage(std::size_t bytes);
  void destroy() noexcept;

  ReferenceCount references_;
  std::atomic<std::uint32_t> version_{0};
  std::uint64_t birth_;
  std::size_t bytes_;
};

/// Shared ownership of anything with retain() and release().
template <class T>
class Shared {
 public:
  Shared() = default;
  /// Takes over the one reference that `object` was made with.
  static Shared adopt(T* object) {
    Shared shared;
    shared.object_ = object;
    return shared;
  }
  /// Adds a reference to an object that is owned elsewhere.
  static Shared share(T* object) {
    if (object) object->retain();
    return adopt(object);
  }
  Shared(const Shared& other) : object_(other.object_) {
    if (object_) object_->retain();
  }
  Shared(Shared&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Shared() {
    if (object_) object_->release();
  }
  /// Without an end of the reference: `adopt` takes it over.
  T* give() { return std::exchange(object_, nullptr); }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace core

namespace memory {
/// Bytes of array data in use now, over all threads (other threads' last 64 KiB may be missing).
std::int64_t current();
/// The most that `current()` has been since the start or the last reset.
std::int64_t peak();
void reset_peak();
/// Tape entries that exist now, over all threads.
std::int64_t live_entries();
/// How often the pool has asked the system for memory so far.
std::int64_t system_allocations();
}  // namespace memory
}  // namespace tapegrad
