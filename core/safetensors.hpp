// The safetensors format: a length, a header in JSON, and the bytes of the tensors. Every byte that is read is
// distrusted.
#pragma once
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

/// Types F32, F64, I64 and BOOL. FileError that names the file, and the tensor at fault if there is one; a damaged or
/// hostile file causes no allocation beyond the file's own size.
SafetensorsContent read_safetensors(const std::string& path);

/// Replaces the file at `path` as write_file_atomically does. ValueError for a name that the format can't hold: one
/// that is given twice, that is not UTF-8, or "__metadata__".
void write_safetensors(const std::string& path, const std::vector<NamedArray>& arrays, const Metadata& metadata = {});

}  // namespace tapegrad::core
