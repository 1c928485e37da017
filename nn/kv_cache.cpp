#include <tapegrad/nn/kv_cache.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::nn {
namespace {

using core::Array;

/// [N, H, T, width] as [N, T, H, width], or back.
Array swapped(const Array& array) { return array.transposed(1, 2); }

bool is_like(const Array& stored, const Array& added) {
  return stored.defined() && stored.dtype() == added.dtype() && stored.size(0) == added.size(0) &&
         stored.size(2) == added.size(2) && stored.size(3) == added.size(3);
}

void check_like(const char* what, const Array& stored, const Array& added) {
  if (is_like(stored, added)) return;
  const std::string fault = fmt::format(
      "KVCache: {} must be like those before, [{}, {}, tokens, {}] {}; got {} {}; each layer and each batch has a "
      "cache "
      "of its own, and reset() empties one",
      what, stored.size(0), stored.size(2), stored.size(3), stored.dtype(), swapped(added).shape(), added.dtype());
  if (stored.dtype() != added.dtype()) throw DtypeError(fault);
  throw ShapeError(fault);
}

/// An array of `capacity` tokens, the first of them the last `kept` of the `stored` ones.
Array moved(const Array& from, const Array& like, std::int64_t stored, std::int64_t kept, std::int64_t capacity) {
  Shape shape = like.shape();
  shape[1] = capacity;
  const Array to(shape, like.dtype());
  if (kept > 0) core::copy_into(to.sliced(1, 0, kept, 1), from.sliced(1, stored - kept, kept, 1));
  return to;
}

}  // namespace

KVCache::KVCache(std::optional<std::int64_t> capacity) : capacity_(capacity) {
  if (capacity) require(*capacity >= 1, "KVCache: capacity must be at least 1; got {}", *capacity);
}

void KVCache::make_room(const Array& keys, const Array& values, std::int64_t kept) {
  const std::int64_t needed = kept + keys.size(1);
  if (capacity_)
    require(needed <= *capacity_,
            "KVCache: at most {} tokens fit; got {} beside {} that are kept; reset() it, or make it larger", *capacity_,
            keys.size(1), kept);
  const std::int64_t room = capacity_.value_or(std::max<std::int64_t>(16, 2 * needed));
  Array moved_keys = moved(keys_, keys, stored_, kept, room);
  values_ = moved(values_, values, stored_, kept, room);
  keys_ = std::move(moved_keys);
  stored_ = kept;
}

KVCache::Entries KVCache::append(const Tensor& new_keys, const Tensor& new_values, std::optional<std::int64_t> window) {
  const Array keys = swapped(new_keys.array()), values = swapped(new_values.array());
  if (stored_ > 0) {
    check_like("keys", keys_, keys);
    check_like("values", values_, values);
  }
  const std::int64_t count = keys.size(1), seen = std::min(stored_, window.value_or(stored_));
  const bool fits = is_like(keys_, keys) && is_like(values_, values) && stored_ + count <= keys_.size(1);
  if (!fits || !keys_.owns_alone() || !values_.owns_alone()) make_room(keys, values, seen);
  core::copy_into(keys_.sliced(1, stored_, count, 1), keys);
  core::copy_into(values_.sliced(1, stored_, count, 1), values);
  stored_ += count;
  length_ += count;
  const std::int64_t first = stored_ - count - seen;
  return {swapped(keys_.sliced(1, first, seen + count, 1)), swapped(values_.sliced(1, first, seen + count, 1))};
}

}  // namespace tapegrad::nn
