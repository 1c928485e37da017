// State dicts as safetensors files, which other tools read and write too.
#pragma once
#include <tapegrad/autograd/state_dict.hpp>
#include <tapegrad/core/safetensors.hpp>

namespace tapegrad {

using core::Metadata;

/// Replaces the file at `path` as a whole, or leaves it as it was and throws FileError. `metadata` is free text by key.
void save_safetensors(const std::string& path, const StateDict& entries, const Metadata& metadata = {});
/// FileError that names the file (and the tensor at fault) if it can't be read or trusted.
StateDict load_safetensors(const std::string& path);

struct AnnotatedStateDict {
  StateDict entries;
  Metadata metadata;
};
/// The same, with the file's metadata.
AnnotatedStateDict load_annotated_safetensors(const std::string& path);

}  // namespace tapegrad
