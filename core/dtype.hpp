// The element types of arrays.
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tapegrad {

/// Element type of a tensor. Gradients exist for the floating types alone.
enum class Dtype : std::uint8_t { boolean, int64, float32, float64 };

inline constexpr Dtype boolean = Dtype::boolean;
inline constexpr Dtype int64 = Dtype::int64;
inline constexpr Dtype float32 = Dtype::float32;
inline constexpr Dtype float64 = Dtype::float64;

/// Bytes of one element.
constexpr std::int64_t size_of(Dtype dtype) { return dtype == Dtype::boolean ? 1 : dtype == Dtype::float32 ? 4 : 8; }
constexpr bool is_floating(Dtype dtype) { return dtype >= Dtype::float32; }
constexpr std::string_view name_of(Dtype dtype) {
  return dtype == Dtype::boolean   ? "boolean"
         : dtype == Dtype::int64   ? "int64"
         : dtype == Dtype::float32 ? "float32"
                                   : "float64";
}
/// The smaller type that holds both: boolean < int64 < float32 < float64.
constexpr Dtype promote(Dtype a, Dtype b) { return a < b ? b : a; }

template <class T>
struct DtypeOf;
template <>
struct DtypeOf<bool> : std::integral_constant<Dtype, Dtype::boolean> {};
template <>
struct DtypeOf<std::int64_t> : std::integral_constant<Dtype, Dtype::int64> {};
template <>
struct DtypeOf<float> : std::integral_constant<Dtype, Dtype::float32> {};
template <>
struct DtypeOf<double> : std::integral_constant<Dtype, Dtype::float64> {};
template <class T>
inline constexpr Dtype dtype_of = DtypeOf<T>::value;

}  // namespace tapegrad
