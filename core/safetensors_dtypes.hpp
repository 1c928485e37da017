// The element types that a safetensors file can hold, and what they become in memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tapegrad/core/dtype.hpp>

namespace tapegrad::core {

struct StoredDtype {
  std::string_view name;
  std::int64_t bytes;
  Dtype loaded;
  /// Converts `count` elements; null if they are kept as they are.
  void (*widen)(const std::byte* from, std::size_t count, std::byte* to);
};

/// nullptr for a type that no dtype of ours holds without loss.
const StoredDtype* find_stored_dtype(std::string_view name);
/// The name under which arrays of `dtype` are written.
std::string_view stored_name(Dtype dtype);

}  // namespace tapegrad::core
