#include <tapegrad/training/metrics.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad {
namespace {

constexpr std::string_view kStep = "{\"step\":";

/// The whole lines of the file whose step, which they begin with, is at most `steps`; lines without one too.
std::string lines_up_to(const std::string& path, std::int64_t steps) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return "";
  std::ifstream file(path);
  require<FileError>(!file.fail(), "Metrics: '{}' must be readable, for its rows are to be kept", path);
  std::string kept, line;
  while (std::getline(file, line) && !file.eof()) {  // what is behind the last line's end was cut off
    const std::size_t begin = line.starts_with(kStep) ? kStep.size() : 0;
    std::int64_t step = 0;
    std::from_chars(line.data() + begin, line.data() + line.size(), step);
    if (step <= steps) kept += line + "\n";
  }
  return kept;
}

bool is_plain(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_./- ").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

}  // namespace

Metrics::Metrics(const std::string& stem, std::int64_t kept_steps)
    : table_{stem + ".csv", ""}, lines_{stem + ".jsonl", ""} {
  if (kept_steps <= 0) return;
  table_.kept = lines_up_to(table_.path, kept_steps);
  lines_.kept = lines_up_to(lines_.path, kept_steps);
  header_ = table_.kept.substr(0, table_.kept.find('\n'));
}

std::string Metrics::header_of(const MetricValues& values) const {
  std::string header = "step";
  for (const auto& [name, value] : values) {
    require(is_plain(name), "Metrics: names must be of letters and digits; got '{}'", name);
    header += "," + name;
  }
  require(header_.empty() || header == header_,
          "Metrics: each row of '{}' must have the names of the first, {}; got {}; measure the same, or begin another "
          "file",
          table_.path, header_, header);
  return header;
}

void Metrics::write(std::int64_t step, const MetricValues& values) {
  const std::string header = header_of(values);
  std::string row = fmt::format("{}", step), line = fmt::format("{}{}", kStep, step);
  for (const auto& [name, value] : values) {
    row += fmt::format(",{}", std::isnan(value) ? std::abs(value) : value);
    line += fmt::format(",\"{}\":{}", name, std::isfinite(value) ? fmt::to_string(value) : "null");
  }
  if (header_.empty()) table_.kept = (header_ = header) + "\n";
  table_.append(row);
  lines_.append(line + "}");
}

void Metrics::File::append(const std::string& line) {
  if (!started) core::write_file_atomically("Metrics", path, kept);
  started = true;
  std::ofstream stream(path, std::ios::app);
  stream << line << "\n" << std::flush;
  require<FileError>(!stream.fail(), "Metrics: '{}' could not be written", path);
}

}  // namespace tapegrad
