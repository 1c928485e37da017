#include "resume.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "bad_input.hpp"
#include "settings.hpp"

namespace toy_lm {
namespace {

constexpr const char* kProgram = "toy_lm train";

/// FNV-1a (Fowler, Noll, Vo) over the characters and the tokens.
std::string fingerprint(const Corpus& corpus) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t word) {
    for (int i = 0; i < 8; ++i) hash = (hash ^ (word >> (8 * i) & 0xff)) * 0x100000001b3;
  };
  for (const char32_t character : corpus.vocabulary.characters()) add(character);
  for (const auto* part : {&corpus.split.training, &corpus.split.validation}) {
    add(part->size());
    for (const std::int64_t token : *part) add(static_cast<std::uint64_t>(token));
  }
  return fmt::format("{:016x}", hash);
}

/// One absolute path a line: the run may be resumed from another folder.
std::string written_paths(const std::vector<std::string>& paths) {
  std::string lines;
  for (const std::string& path : paths) lines += std::filesystem::absolute(path).string() + "\n";
  return lines;
}

std::vector<std::string> read_paths(const std::string& text) {
  std::vector<std::string> paths;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) paths.push_back(line);
  return paths;
}

tg::Metadata read_run(const std::string& folder) {
  try {
    tg::Metadata run = tg::read_checkpoint_note(checkpoint_path(folder)).metadata;
    if (run["program"] != kProgram) throw BadInput("it is the checkpoint of another program");
    return run;
  } catch (const std::runtime_error& error) {
    throw BadInput(
        fmt::format("--resume '{}': must be a folder with a checkpoint that 'toy_lm train --out {}' saved; {}", folder,
                    folder, error.what()));
  }
}

}  // namespace

std::string checkpoint_path(const std::string& folder) { return folder + "/checkpoint.safetensors"; }

tg::Metadata describe_run(const TrainOptions& options, const Corpus& corpus) {
  tg::Metadata run = written_settings(options);
  run["program"] = kProgram;
  run["fingerprint"] = fingerprint(corpus);
  run["--text"] = written_paths(options.text);
  return run;
}

void adopt_options(TrainOptions& options, const std::function<bool(const std::string& option)>& given) {
  tg::Metadata run = read_run(options.out);
  std::string differing;
  for (const auto& [option, value] : written_settings(options)) {
    if (!given(option)) continue;
    std::string& before = run[option];
    if (before != value && !may_change(option))
      differing += fmt::format("{}{} {} (was {})", differing.empty() ? "" : ", ", option, value, before);
    before = value;
  }
  if (!differing.empty())
    throw BadInput(
        fmt::format("--resume '{}': the settings must be those that the run began with; got {}; leave them out",
                    options.out, differing));
  try {
    read_settings(options, run);
  } catch (const BadInput& error) {
    throw BadInput(fmt::format("--resume '{}': {}", options.out, error.what()));
  }
  if (!given("--text")) options.text = read_paths(run["--text"]);
}

void check_same_text(const tg::Metadata& run, const Corpus& corpus) {
  const auto then = run.find("fingerprint");
  const std::string now = fingerprint(corpus);
  if (then == run.end() || then->second != now)
    throw BadInput(
        fmt::format("--resume: the text must be the one that the run began with; its fingerprint was {} and "
                    "that of {} is {}",
                    then == run.end() ? "not noted" : then->second, corpus.name, now));
}

}  // namespace toy_lm
