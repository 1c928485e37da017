#include "report.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/version.hpp>
#include <thread>

namespace toy_lm {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRecords = 512;
constexpr std::string_view kPage =
#include "report.html.inc"
    ;
constexpr std::string_view kPlaceOfData = "@DATA@";

/// `a`, which stands for so many steps, and `b` for so many that follow them.
StepRecord merged(const StepRecord& a, std::int64_t steps_a, const StepRecord& b, std::int64_t steps_b) {
  const double share = static_cast<double>(steps_b) / static_cast<double>(steps_a + steps_b);
  const auto mean = [&](double x, double y) { return x + share * (y - x); };
  return {b.step, mean(a.loss, b.loss), mean(a.lr, b.lr), mean(a.gradient_norm, b.gradient_norm),
          mean(a.tokens_per_second, b.tokens_per_second)};
}

/// A map as letters, row by row: from a, which is 0, to z, which is 1, by the root, which lets weak weights be seen.
std::string letters(const tg::Tensor& map) {
  std::string text;
  for (const double weight : map.to_vector<double>())
    text += static_cast<char>('a' + std::lround(25 * std::sqrt(std::clamp(weight, 0.0, 1.0))));
  return text;
}

json maps_json(const tg::Tensors& maps) {
  json layers = json::array();
  for (const tg::Tensor& layer : maps) {
    json heads = json::array();
    for (std::int64_t head = 0; head < layer.size(0); ++head) heads.push_back(letters(layer.select(0, head)));
    layers.push_back(heads);
  }
  return layers;
}

}  // namespace

void History::add(const StepRecord& record) {
  if (records_.empty() || filled_ == width_) {
    if (records_.size() == kMostRecords) {
      for (std::size_t i = 0; i < kMostRecords / 2; ++i)
        records_[i] = merged(records_[2 * i], width_, records_[2 * i + 1], width_);
      records_.resize(kMostRecords / 2);
      width_ *= 2;
    }
    records_.push_back(record);
    filled_ = 1;
    return;
  }
  records_.back() = merged(records_.back(), filled_, record, 1);
  ++filled_;
}

std::string History::to_json() const {
  json records = json::array(), samples = json::array();
  for (const StepRecord& r : records_) records.push_back({r.step, r.loss, r.lr, r.gradient_norm, r.tokens_per_second});
  for (const auto& [step, text] : samples_) samples.push_back({step, text});
  return json{{"records", records}, {"width", width_}, {"filled", filled_}, {"samples", samples}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

History History::from_json(const std::string& text) try {
  History history;
  const json data = json::parse(text);
  for (const json& r : data.at("records")) history.records_.push_back({r.at(0), r.at(1), r.at(2), r.at(3), r.at(4)});
  history.width_ = data.at("width");
  history.filled_ = data.at("filled");
  for (const json& sample : data.at("samples")) history.add_sample(sample.at(0), sample.at(1));
  if (history.width_ < 1 || history.filled_ > history.width_ || history.records_.size() > kMostRecords ||
      (history.records_.empty() ? history.filled_ != 0 : history.filled_ < 1))
    throw tg::ValueError("history: must be what an earlier run has noted; its records can't be of so many steps each");
  return history;
} catch (const json::exception& error) {
  throw tg::ValueError(fmt::format("history: must be what an earlier run has noted; {}", error.what()));
}

std::map<std::string, std::string> describe_machine() {
  std::string processor = "unknown";
  std::ifstream information("/proc/cpuinfo");
  for (std::string line; std::getline(information, line);)
    if (line.rfind("model name", 0) == 0) {
      processor = line.substr(line.find(':') + 2);
      break;
    }
  utsname system{};
  ::uname(&system);
  const double bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return {{"processor", processor},
          {"cores", std::to_string(std::thread::hardware_concurrency())},
          {"threads used", std::to_string(tg::num_threads())},
          {"memory", fmt::format("{:.1f} GiB", bytes / 1024 / 1024 / 1024)},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"tapegrad", TAPEGRAD_VERSION}};
}

void write_report(const std::string& path, const History& history, const ReportFacts& facts) {
  const json page{{"title", facts.title},
                  {"metrics", facts.metrics},
                  {"floor", facts.floor ? json(*facts.floor) : json()},
                  {"history", json::parse(history.to_json())},
                  {"summary", facts.summary},
                  {"settings", facts.settings},
                  {"machine", describe_machine()},
                  {"characters", facts.characters},
                  {"maps", maps_json(facts.maps)}};
  // No "<" may stand in a script of a page: in a string of JSON it can be written otherwise.
  std::string data;
  for (const char c : page.dump(-1, ' ', true, json::error_handler_t::replace))
    data += c == '<' ? "\\u003c" : std::string(1, c);
  std::string text(kPage);
  text.replace(text.find(kPlaceOfData), kPlaceOfData.size(), data);
  tg::core::write_file_atomically("report", path, text);
}

}  // namespace toy_lm
