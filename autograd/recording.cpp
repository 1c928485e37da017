#include <algorithm>

#include <tapegrad/autograd/recording.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/core/scope.hpp>
#include <tapegrad/core/storage.hpp>

namespace tapegrad::autograd {

void Recording::begin(const char* name, const char* action, Span::Kind kind) {
  if (depth_ == 0) open(name, action, kind, kind == Span::Kind::outside ? 0 : module_here());
  ++depth_;
}

void Recording::begin(const Entry& entry) {
  if (depth_ == 0) open(entry.name(), "", Span::Kind::backward, module_of(entry));
  ++depth_;
}

void Recording::open(const char* name, const char* action, Span::Kind kind, int module) {
  Event& event = events_.emplace_back(Event{name, action, kind, module, 0, {}, {}});
  event.begin = event.end = now();  // last: the notes themselves are not the operation's time
}

void Recording::end() noexcept {
  if (depth_ > 0 && --depth_ == 0) events_.back().end = now();
}

void Recording::note(const Entry& entry) {
  if (depth_ > 0) entries_.emplace_back(entry.number(), events_.back().module);
}

void Recording::note_bytes(std::int64_t bytes) {
  if (depth_ == 1) events_.back().bytes_kept += bytes;
}

int Recording::module_here() {
  const core::Scope* innermost = core::Scope::current();
  const std::uint64_t number = innermost ? innermost->number() : 0;
  if (number == here_number_) return here_;
  for (const core::Scope* scope = innermost; scope && scope->number() > counted_; scope = scope->outer())
    if (!scope->name().empty() || !scope->outer()) ++modules_[module_at(scope->path_to_here())].calls;
  counted_ = std::max(counted_, number);
  here_number_ = number;
  return here_ = module_at(core::Scope::path());
}

int Recording::module_at(const std::string& path) {
  if (const auto found = module_at_.find(path); found != module_at_.end()) return found->second;
  const std::size_t dot = path.rfind('.');
  const int parent = dot == std::string::npos ? 0 : module_at(path.substr(0, dot));
  modules_.push_back({path, parent});
  return module_at_[path] = static_cast<int>(modules_.size()) - 1;
}

int Recording::module_of(const Entry& entry) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), std::pair{entry.number(), 0});
  return found != entries_.end() && found->first == entry.number() ? found->second : 0;
}

// A span that was open when its profile ended has nowhere left to write.
void Span::begin(const char* name, const char* action, Kind kind) const { recording_->begin(name, action, kind); }
void Span::begin(const Entry& entry) const { recording_->begin(entry); }
void Span::end() const noexcept {
  if (recording_ == current_) recording_->end();
}
void Span::note(const Entry& entry) const {
  if (recording_ == current_) recording_->note(entry);
}
void Span::note_bytes(std::int64_t bytes) const {
  if (recording_ == current_) recording_->note_bytes(bytes);
}
std::int64_t Span::bytes_now() { return memory::current(); }

}  // namespace tapegrad::autograd
