// The header of a safetensors file, parsed without trust, and written.
#pragma once
#include <string>
#include <string_view>

#include <tapegrad/core/safetensors.hpp>

namespace tapegrad::core {

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  Metadata metadata;
};

/// FileError, `where` in front, if `text` is not a JSON object of entries of the right types; `header` then has those
/// before the fault. What the numbers mean is not looked at.
void parse_safetensors_header(const std::string& where, std::string_view text, SafetensorsHeader& header);

/// The JSON of such a header, padded with spaces to a multiple of 8 bytes. ValueError, `where` in front, for text that
/// is not UTF-8.
std::string format_safetensors_header(const std::string& where, const SafetensorsHeader& header);

/// A name as an error text shows it: quoted, control characters escaped, its middle left out if it is long.
std::string quoted_name(const std::string& name);

}  // namespace tapegrad::core
