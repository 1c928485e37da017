// The header of a safetensors file, parsed without trust, and written.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tapegrad/core/safetensors.hpp>

namespace tapegrad::core {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;  // begin and end, in bytes after the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  Metadata metadata;
};

/// FileError, `where` in front, if `text` is not a JSON object of entries of the right types. What the numbers mean is
/// not looked at.
SafetensorsHeader parse_safetensors_header(const std::string& where, std::string_view text);

/// The JSON of such a header, padded with spaces to a multiple of 8 bytes. ValueError, `where` in front, for text that
/// is not UTF-8.
std::string format_safetensors_header(const std::string& where, const SafetensorsHeader& header);

/// A name as an error text shows it: quoted, control characters escaped, its middle left out if it is long.
std::string quoted_name(const std::string& name);

}  // namespace tapegrad::core
