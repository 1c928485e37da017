// The safetensors format: a length, a header in JSON, and the bytes of the tensors. Every byte that is read is
// distrusted.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core {

/// What a safetensors file says about itself ("__metadata__"): text by key.
using Metadata = std::map<std::string, std::string>;

struct NamedArray {
  std::string name;
  Array array;
};

struct SafetensorsContent {
  std::vector<NamedArray> arrays;  // in the order of the header
  Metadata metadata;
};

/// F32, F64, I64 and BOOL are read as they are, F16 and BF16 as float32, I8, I16, I32, U8, U16 and U32 as int64: every
/// value is kept exactly. FileError that names the file, and the tensor at fault if there is one. Nothing but the
/// result is held in memory, and a damaged or hostile file can't ask for more than its own bytes would take if they
/// were one of these types.
SafetensorsContent read_safetensors(const std::string& path);

/// One tensor as the header describes it.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;  // begin and end, in bytes after the header
};

struct SafetensorsReport {
  std::uint64_t file_bytes = 0;
  std::vector<SafetensorsEntry> entries;  // up to where the header stops making sense
  Metadata metadata;
  std::vector<std::string> faults;  // everything for which read_safetensors would refuse the file, in its words
};
/// Looks at a file that may be damaged, and holds no more than one of its tensors at a time.
SafetensorsReport inspect_safetensors(const std::string& path);

/// Replaces the file at `path` as write_file_atomically does. ValueError for a name that the format can't hold: one
/// that is given twice, that is not UTF-8, or "__metadata__".
void write_safetensors(const std::string& path, const std::vector<NamedArray>& arrays, const Metadata& metadata = {});

}  // namespace tapegrad::core
