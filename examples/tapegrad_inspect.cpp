// What is in a safetensors or .npy file: names, dtypes, shapes, sizes, metadata, and every fault for which it would not
// load. Exit codes: 0 sound, 1 faults, 2 a wrong command line.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <tapegrad/core/safetensors_header.hpp>
#include <tapegrad/tapegrad.hpp>

#include "arguments.hpp"

namespace tg = tapegrad;

namespace {

std::string size_text(std::uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  const bool is_large = bytes >= 10'000'000;
  return fmt::format("{:.1f} {}", static_cast<double>(bytes) / (is_large ? 1e6 : 1e3), is_large ? "MB" : "kB");
}

/// Texts of a file that isn't trusted: no control characters reach the terminal.
std::string shown(const std::string& text) {
  const std::string quoted = tg::core::quoted_name(text);
  return quoted.substr(1, quoted.size() - 2);
}

std::size_t characters(const std::string& utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void print_entry(const tg::core::SafetensorsEntry& entry, std::size_t width) {
  const bool has_range = entry.offsets.size() == 2 && entry.offsets[0] <= entry.offsets[1];
  fmt::print("{:<{}}  {:<5} {:<16} {:>10}\n", shown(entry.name), width, shown(entry.dtype),
             fmt::format("[{}]", fmt::join(entry.shape, ", ")),
             has_range ? size_text(entry.offsets[1] - entry.offsets[0]) : "?");
}

bool inspect_safetensors(const std::string& path) {
  const tg::core::SafetensorsReport report = tg::core::inspect_safetensors(path);
  std::size_t width = 0;
  for (const auto& entry : report.entries) width = std::max(width, characters(shown(entry.name)));
  for (const auto& entry : report.entries) print_entry(entry, width);
  for (const auto& [key, text] : report.metadata) fmt::print("metadata {}: {}\n", shown(key), shown(text));
  std::uint64_t elements = 0;
  if (report.faults.empty())  // else the shapes may be anything
    for (const auto& entry : report.entries)
      elements += std::accumulate(entry.shape.begin(), entry.shape.end(), std::uint64_t{1}, std::multiplies<>());
  fmt::print("{} tensors, {} elements; the file has {}\n", report.entries.size(),
             report.faults.empty() ? fmt::to_string(elements) : "?", size_text(report.file_bytes));
  for (const std::string& fault : report.faults) fmt::print(stderr, "fault: {}\n", fault);
  return report.faults.empty();
}

bool inspect_npy(const std::string& path) {
  const tg::Tensor tensor = tg::load_npy(path);
  fmt::print("{} {}; the file has {}\n", tg::name_of(tensor.dtype()), tensor.shape(),
             size_text(std::filesystem::file_size(path)));
  return true;
}

}  // namespace

bool inspect(const std::string& path) {
  try {
    return path.ends_with(".npy") ? inspect_npy(path) : inspect_safetensors(path);
  } catch (const tg::FileError& error) {
    fmt::print(stderr, "fault: {}\n", error.what());
    return false;
  }
}

int main(int argc, char** argv) {
  arguments::Program program("tapegrad_inspect",
                             "Lists the tensors, the metadata and the faults of a safetensors or .npy file");
  std::string path;
  program.add_argument("file", path, "what to look at");
  return program.run(argc, argv, [&] { return inspect(path); });
}
