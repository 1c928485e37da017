// What a run measures, as a table and as JSON lines.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tapegrad {

/// Values by name.
using MetricValues = std::vector<std::pair<std::string, double>>;

/// Writes "<stem>.csv" (with a line of names) and "<stem>.jsonl" (one object a line; null for what is not finite), a
/// row at a time. Files that are there are replaced at the first write, except for their rows up to `kept_steps`.
class Metrics {
 public:
  /// FileError if there are rows to be kept that can't be read.
  explicit Metrics(const std::string& stem, std::int64_t kept_steps = 0);
  /// ValueError if the names are not those of the rows before, or have other signs than letters, digits, '_', '.', '/',
  /// '-' and spaces; FileError if it can't be written.
  void write(std::int64_t step, const MetricValues& values);
  /// What write would throw for the names.
  void check(const MetricValues& values) const { header_of(values); }

 private:
  struct File {
    std::string path;
    std::string kept;
    bool started = false;
    void append(const std::string& line);
  };
  std::string header_of(const MetricValues& values) const;
  File table_, lines_;
  std::string header_;
};

}  // namespace tapegrad
