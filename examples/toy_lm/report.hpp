// The report of a run: one page for a browser that needs nothing else.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model.hpp"

namespace toy_lm {

/// One step, or the mean of a few that follow each other.
struct StepRecord {
  std::int64_t step;  // the last of them
  double loss;
  double lr;
  double gradient_norm;  // before clipping
  double tokens_per_second;
};

/// What is remembered of a run's steps, in bounded memory: as more steps come, neighbours are averaged.
class History {
 public:
  void add(const StepRecord& record);
  void add_sample(std::int64_t step, std::string text) { samples_[step] = std::move(text); }

  /// As JSON, for a checkpoint; and back. ValueError if it is not what to_json() gave.
  std::string to_json() const;
  static History from_json(const std::string& text);

 private:
  std::vector<StepRecord> records_;  // the last one may be of fewer steps than the others
  std::int64_t width_ = 1;           // steps in a record
  std::int64_t filled_ = 0;          // steps in the last one
  std::map<std::int64_t, std::string> samples_;
};

/// What the page shows beside the history.
struct ReportFacts {
  std::string title;
  std::string metrics;  // metrics.csv
  std::optional<double> floor;
  std::vector<std::pair<std::string, std::string>> summary;
  std::map<std::string, std::string> settings;
  std::vector<std::string> characters;  // that the model read for `maps`
  tg::Tensors maps;                     // of each layer [heads, characters, characters]
};

/// Model, cores, memory and system of this computer, and the library's version.
std::map<std::string, std::string> describe_machine();

/// Replaces the file as a whole, or leaves it as it was and throws tapegrad::FileError.
void write_report(const std::string& path, const History& history, const ReportFacts& facts);

}  // namespace toy_lm
