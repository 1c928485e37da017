#include <tapegrad/autograd/user_line.hpp>

#include <string_view>
#include <vector>

namespace tapegrad::autograd {
namespace {

thread_local std::vector<SourceLocation> lines;

/// The folder of the library's sources, with its slash.
std::string_view source_folder() {
  const std::string_view here = SourceLocation::current().file_name();
  return here.substr(0, here.rfind("autograd/"));
}

/// Sources by their folder; headers, which may be installed elsewhere, by the name that they are included by.
bool is_ours(std::string_view file) {
  if (file.find("/include/c++/") != file.npos) return true;  // std::function calls for somebody else
  for (const std::string_view room : {"core/", "autograd/", "nn/", "optim/", "training/"}) {
    if (file.starts_with(source_folder()) && file.substr(source_folder().size()).starts_with(room)) return true;
    if (file.ends_with(".hpp") && file.find("/tapegrad/" + std::string(room)) != file.npos) return true;
  }
  return false;
}

}  // namespace

bool UserLine::note(SourceLocation where) {
  if (where.line() == 0 || is_ours(where.file_name())) return false;
  lines.push_back(where);
  return true;
}

void UserLine::forget() noexcept { lines.pop_back(); }

SourceLocation UserLine::current() { return lines.empty() ? SourceLocation() : lines.back(); }

std::string UserLine::text(SourceLocation where) {
  return where.line() == 0 ? "" : std::string(" at ") + where.file_name() + ":" + std::to_string(where.line());
}

}  // namespace tapegrad::autograd
