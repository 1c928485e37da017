#include "settings.hpp"

#include <fmt/format.h>

#include "bad_input.hpp"

namespace toy_lm {
std::map<std::string, std::string> written_settings(const TrainOptions& options) {
  std::map<std::string, std::string> settings;
  each_setting(options, [&](const char* option, const auto& value, const auto&) {
    settings[option] = fmt::format("{}", value);
  });
  return settings;
}

void read_settings(TrainOptions& options, const std::map<std::string, std::string>& settings) {
  each_setting(options, [&](const char* option, auto& value, const auto&) {
    const auto found = settings.find(option);
    if (found == settings.end() || !arguments::read(found->second, value))
      throw BadInput(fmt::format("its metadata must give {} as a value; another version of toy_lm wrote it", option));
  });
}

}  // namespace toy_lm
