#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include <tapegrad/autograd/profile.hpp>
#include <tapegrad/autograd/recording.hpp>
#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad::autograd {
namespace {

using Kind = Span::Kind;
using Event = Recording::Event;

double total(const ProfileRow& row) { return row.forward_ms + row.backward_ms; }

void add(ProfileRow& row, const Event& event) {
  (event.kind == Kind::backward ? row.backward_ms : row.forward_ms) += event.ms();
  row.bytes_kept += event.bytes_kept;
}

/// Sorts the rows, gives each its share of the time since the start, and adds a row for what `named_ms` leaves.
std::vector<ProfileRow> completed(std::vector<ProfileRow> rows, const Recording& recording, double named_ms) {
  const double all = std::chrono::duration<double, std::milli>(Recording::now() - recording.start()).count();
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return total(a) > total(b); });
  rows.push_back({.name = "(other)", .forward_ms = all - named_ms});
  for (ProfileRow& row : rows) row.share = total(row) / all;
  return rows;
}

constexpr std::size_t kNameWidth = 44;

void print(std::string& text, const char* title, const std::vector<ProfileRow>& rows) {
  fmt::format_to(std::back_inserter(text), "{:<{}} {:>7} {:>12} {:>12} {:>11} {:>8}\n", title, kNameWidth, "calls",
                 "forward ms", "backward ms", "kept MB", "share");
  for (const ProfileRow& row : rows) {
    const std::size_t size = row.name.size();
    const std::string name = size > kNameWidth ? "..." + row.name.substr(size - kNameWidth + 3) : row.name;
    fmt::format_to(std::back_inserter(text), "{:<{}} {:>7} {:>12.3f} {:>12.3f} {:>11.3f} {:>6.1f} %\n", name,
                   kNameWidth, row.calls, row.forward_ms, row.backward_ms, static_cast<double>(row.bytes_kept) / 1e6,
                   100 * row.share);
  }
}

/// Events as Chrome wants them; modules that run of operations share are drawn around them.
class Trace {
 public:
  explicit Trace(const Recording& recording) : recording_(recording) {}

  void add(const Event& event) {
    if (event.kind != kind_) close_modules(0);
    kind_ = event.kind;
    std::vector<int> path;
    for (int module = event.module; module > 0; module = recording_.modules()[module].parent) path.push_back(module);
    std::reverse(path.begin(), path.end());
    const auto parting = std::mismatch(open_.begin(), open_.end(), path.begin(), path.end());
    close_modules(parting.first - open_.begin());
    for (auto module = parting.second; module != path.end(); ++module) {
      open_.push_back(*module);
      put(recording_.modules()[*module].path, 'B', event.begin);
    }
    put(event.label(), 'B', event.begin)["args"]["bytes_kept"] = event.bytes_kept;
    put(event.label(), 'E', last_ = event.end);
  }

  std::string text() {
    close_modules(0);
    return nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", events_}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

 private:
  nlohmann::json& put(const std::string& name, char phase, Recording::Time time) {
    static constexpr const char* kCategories[] = {"forward", "backward", "outside"};
    const double us = std::chrono::duration<double, std::micro>(time - recording_.start()).count();
    events_.push_back({{"name", name},
                       {"cat", kCategories[static_cast<int>(kind_)]},
                       {"ph", std::string(1, phase)},
                       {"ts", us},
                       {"pid", 1},
                       {"tid", 1}});
    return events_.back();
  }
  void close_modules(std::ptrdiff_t left) {
    for (; static_cast<std::ptrdiff_t>(open_.size()) > left; open_.pop_back())
      put(recording_.modules()[open_.back()].path, 'E', last_);
  }

  const Recording& recording_;
  nlohmann::json events_ = nlohmann::json::array();
  Kind kind_ = Kind::forward;
  std::vector<int> open_;  // modules, from the outermost
  Recording::Time last_;
};

}  // namespace

profile::profile() {
  if (Span::current_) throw ValueError("profile: a thread has one at a time; got a second; end the first before");
  recording_ = std::make_unique<Recording>();
  Span::current_ = recording_.get();
}

profile::~profile() { Span::current_ = nullptr; }

std::vector<ProfileRow> profile::operations() const {
  std::map<std::string, ProfileRow> rows;
  double named = 0;
  for (const Event& event : recording_->events()) {
    ProfileRow& row = rows[event.label()];
    row.calls += event.kind != Kind::backward;
    add(row, event);
    named += event.ms();
  }
  std::vector<ProfileRow> list;
  for (auto& [name, row] : rows) {
    row.name = name;
    list.push_back(std::move(row));
  }
  return completed(std::move(list), *recording_, named);
}

std::vector<ProfileRow> profile::modules() const {
  const std::vector<Recording::Module>& modules = recording_->modules();
  std::vector<ProfileRow> rows;
  for (const Recording::Module& module : modules)
    rows.push_back({.name = module.path.empty() ? "(all)" : module.path, .calls = module.calls});
  double named = 0;
  for (const Event& event : recording_->events()) {
    if (event.kind == Kind::outside) continue;
    for (int module = event.module; module >= 0; module = modules[module].parent) add(rows[module], event);
    named += event.ms();
  }
  return completed(std::move(rows), *recording_, named);
}

std::string profile::table() const {
  std::string text;
  print(text, "operation", operations());
  text += '\n';
  print(text, "module, with all that is inside", modules());
  return text;
}

void profile::save_chrome_trace(const std::string& path) const {
  Trace trace(*recording_);
  for (const Event& event : recording_->events()) trace.add(event);
  core::write_file_atomically("save_chrome_trace", path, trace.text());
}

}  // namespace tapegrad::autograd
