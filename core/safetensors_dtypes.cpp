#include <algorithm>
#include <bit>
#include <cstring>

#include <tapegrad/core/safetensors_dtypes.hpp>

namespace tapegrad::core {
namespace {

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// IEEE binary16. In float's place its bits mean 2^112 times less, subnormal numbers too.
float from_float16(std::uint16_t bits) {
  const std::uint32_t shifted = (bits & 0x7fffu) << 13;
  const bool is_finite = (bits & 0x7c00u) != 0x7c00u;
  const float size = is_finite ? std::bit_cast<float>(shifted) * 0x1p112f : std::bit_cast<float>(shifted | 0x7f800000u);
  return bits & 0x8000u ? -size : size;
}

template <class T>
std::int64_t from_integer(T value) {
  return value;
}

template <auto convert, class From, class To>
void widen(const std::byte* from, std::size_t count, std::byte* to, To (*)(From)) {
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    const To result = convert(value);
    std::memcpy(to + i * sizeof result, &result, sizeof result);
  }
}

template <auto convert>
void widen_all(const std::byte* from, std::size_t count, std::byte* to) {
  widen<convert>(from, count, to, convert);
}

constexpr StoredDtype kDtypes[] = {{"F32", 4, Dtype::float32, nullptr},
                                   {"F64", 8, Dtype::float64, nullptr},
                                   {"I64", 8, Dtype::int64, nullptr},
                                   {"BOOL", 1, Dtype::boolean, nullptr},
                                   {"F16", 2, Dtype::float32, widen_all<from_float16>},
                                   {"BF16", 2, Dtype::float32, widen_all<from_bfloat16>},
                                   {"I32", 4, Dtype::int64, widen_all<from_integer<std::int32_t>>},
                                   {"I16", 2, Dtype::int64, widen_all<from_integer<std::int16_t>>},
                                   {"I8", 1, Dtype::int64, widen_all<from_integer<std::int8_t>>},
                                   {"U32", 4, Dtype::int64, widen_all<from_integer<std::uint32_t>>},
                                   {"U16", 2, Dtype::int64, widen_all<from_integer<std::uint16_t>>},
                                   {"U8", 1, Dtype::int64, widen_all<from_integer<std::uint8_t>>}};

}  // namespace

const StoredDtype* find_stored_dtype(std::string_view name) {
  const auto* row = std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](auto& r) { return r.name == name; });
  return row == std::end(kDtypes) ? nullptr : row;
}

std::string_view stored_name(Dtype dtype) {
  return std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](auto& row) { return row.loaded == dtype; })->name;
}

}  // namespace tapegrad::core
