// libFuzzer's target: every input is a file for load_safetensors, or for load_npy if it begins as one. It ends in a
// FileError that names the file, or in what can be saved and loaded again.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

bool same(const tg::Tensor& a, const tg::Tensor& b) {
  const auto bytes = static_cast<std::size_t>(a.numel() * tg::size_of(a.dtype()));
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.array().contiguous().data<char>(), b.array().contiguous().data<char>(), bytes) == 0;
}

/// Where what is loaded is saved to; one for each process.
const std::string kCopy = "/dev/shm/tapegrad-fuzz-" + std::to_string(::getpid());

void check_safetensors(const std::string& path, std::size_t bytes) {
  const bool is_sound = tg::core::inspect_safetensors(path).faults.empty();
  tg::memory::reset_peak();
  try {
    const tg::AnnotatedStateDict file = tg::load_annotated_safetensors(path);
    require(is_sound);
    tg::save_safetensors(kCopy, file.entries, file.metadata);
    const tg::AnnotatedStateDict again = tg::load_annotated_safetensors(kCopy);
    require(again.metadata == file.metadata && again.entries.size() == file.entries.size());
    for (const auto& [name, tensor] : file.entries) require(same(tensor, again.entries.at(name)));
  } catch (const tg::FileError& error) {
    require(!is_sound && std::string(error.what()).find(path) != std::string::npos);
    require(tg::memory::peak() <= static_cast<std::int64_t>(8 * bytes + 1'000'000));
  }
}

void check_npy(const std::string& path, std::size_t bytes) {
  tg::memory::reset_peak();
  try {
    const tg::Tensor tensor = tg::load_npy(path);
    tg::save_npy(kCopy, tensor);
    require(same(tensor, tg::load_npy(kCopy)));
  } catch (const tg::FileError& error) {
    require(std::string(error.what()).find(path) != std::string::npos);
    require(tg::memory::peak() <= static_cast<std::int64_t>(8 * bytes + 1'000'000));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("input", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  require(::ftruncate(file, 0) == 0 && ::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  if (size > 6 && std::memcmp(data, "\x93NUMPY", 6) == 0)
    check_npy(path, size);
  else
    check_safetensors(path, size);
  ::unlink(kCopy.c_str());
  return 0;
}
