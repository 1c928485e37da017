#include "settings.hpp"

#include <fmt/format.h>

#include <charconv>

#include "bad_input.hpp"

namespace toy_lm {
namespace {

template <class T>
bool read(const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
    return true;
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  }
}

}  // namespace

std::map<std::string, std::string> written_settings(const TrainOptions& options) {
  std::map<std::string, std::string> settings;
  each_setting(options, [&](const char* option, const auto& value) { settings[option] = fmt::format("{}", value); });
  return settings;
}

void read_settings(TrainOptions& options, const std::map<std::string, std::string>& settings) {
  each_setting(options, [&](const char* option, auto& value) {
    const auto found = settings.find(option);
    if (found == settings.end() || !read(found->second, value))
      throw BadInput(fmt::format("its metadata must give {} as a value; another version of toy_lm wrote it", option));
  });
}

}  // namespace toy_lm
