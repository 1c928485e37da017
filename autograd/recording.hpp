// What a profile notes while it is on. Private to the library.
#pragma once
#include <chrono>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tapegrad/autograd/span.hpp>

namespace tapegrad::autograd {

class Recording {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static Time now() { return std::chrono::steady_clock::now(); }

  struct Event {
    const char* name;
    const char* action;
    Span::Kind kind;
    int module;
    std::int64_t bytes_kept;
    Time begin, end;
    std::string label() const { return std::string(name) + action; }
    double ms() const { return std::chrono::duration<double, std::milli>(end - begin).count(); }
  };
  /// A node of the tree of dotted paths; its parent stands before it. The first is the root, of path "".
  struct Module {
    std::string path;
    int parent;
    std::int64_t calls = 0;
  };

  void begin(const char* name, const char* action, Span::Kind kind);
  void begin(const Entry& entry);
  void end() noexcept;
  /// `entry` belongs to the module of the event that is open.
  void note(const Entry& entry);
  void note_bytes(std::int64_t bytes);

  const std::vector<Event>& events() const { return events_; }
  const std::vector<Module>& modules() const { return modules_; }
  Time start() const { return start_; }

 private:
  void open(const char* name, const char* action, Span::Kind kind, int module);
  /// The module that is being called here and now; counts the calls that it sees for the first time.
  int module_here();
  int module_at(const std::string& path);
  int module_of(const Entry& entry) const;

  Time start_ = now();
  std::vector<Event> events_;
  int depth_ = 0;  // of open spans; the outermost is the last event
  std::vector<Module> modules_{{"", -1}};
  std::unordered_map<std::string, int> module_at_{{"", 0}};
  int here_ = 0;                                        // the module of
  std::uint64_t here_number_ = 0;                       // the scope of this number
  std::uint64_t counted_ = 0;                           // calls of scopes up to this number are counted
  std::vector<std::pair<std::uint64_t, int>> entries_;  // their numbers, which grow, and their modules
};

}  // namespace tapegrad::autograd
