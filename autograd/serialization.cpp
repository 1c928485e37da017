#include <tapegrad/autograd/serialization.hpp>

namespace tapegrad {

void save_safetensors(const std::string& path, const StateDict& entries, const Metadata& metadata) {
  std::vector<core::NamedArray> arrays;
  for (const auto& [name, tensor] : entries) {
    autograd::check_defined(("save_safetensors: '" + name + "'").c_str(), tensor);
    arrays.push_back({name, tensor.array()});
  }
  core::write_safetensors(path, arrays, metadata);
}

StateDict load_safetensors(const std::string& path) { return load_annotated_safetensors(path).entries; }

AnnotatedStateDict load_annotated_safetensors(const std::string& path) {
  core::SafetensorsContent content = core::read_safetensors(path);
  AnnotatedStateDict result{{}, std::move(content.metadata)};
  for (core::NamedArray& array : content.arrays) result.entries.set(array.name, Tensor(std::move(array.array)));
  return result;
}

}  // namespace tapegrad
