#include "recorded_names.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace tapegrad::table {
namespace {

using Match = std::sregex_iterator;

std::string without_comments(const std::filesystem::path& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::regex_replace(text, std::regex("//[^\n]*"), "");
}

/// The function around position `at`, which takes the name as its first argument.
std::string function_with(const std::string& parameter, const std::string& text, std::ptrdiff_t at) {
  const std::regex signature("(\\w+)\\(const char\\* " + parameter + "\\b");
  std::string function;
  for (Match match(text.begin(), text.begin() + at, signature), end; match != end; ++match) function = (*match)[1];
  if (function.empty()) throw std::runtime_error("record(" + parameter + ", ...: whose parameter is it?");
  return function;
}

void add_names(const std::string& function, const std::string& text, std::set<std::string>& names) {
  const std::regex literal("\\b" + function + "\\(\\s*\"(\\w+)\"");
  for (Match match(text.begin(), text.end(), literal), end; match != end; ++match) names.insert((*match)[1]);
}

}  // namespace

std::set<std::string> recorded_names() {
  std::set<std::string> names;
  for (const char* room : {"autograd", "nn"})
    for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(TAPEGRAD_SOURCE_DIR) / room)) {
      if (file.path().extension() != ".cpp") continue;
      const std::string text = without_comments(file.path());
      add_names("record", text, names);
      const std::regex handed_on("\\brecord\\(\\s*([a-z]\\w*)\\s*,");
      for (Match match(text.begin(), text.end(), handed_on), end; match != end; ++match)
        add_names(function_with((*match)[1], text, match->position()), text, names);
    }
  return names;
}

}  // namespace tapegrad::table
