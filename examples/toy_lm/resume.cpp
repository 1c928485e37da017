#include "resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "bad_input.hpp"
#include "settings.hpp"
#include "train_checks.hpp"

namespace toy_lm {
namespace {

constexpr const char* kProgram = "toy_lm train";

template <class... Args>
void must(bool hold, fmt::format_string<Args...> text, Args&&... args) {
  if (!hold) throw BadInput(fmt::format(text, std::forward<Args>(args)...));
}

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

bool is_utf8(const std::string& text) {
  try {
    decode_utf8(text, "path");
    return true;
  } catch (const BadInput&) {
    return false;
  }
}

/// One absolute path a line, for the run may be resumed from another folder. A backslash, the end of a line and, where
/// they are not UTF-8, all bytes beyond ASCII are written as \xHH.
std::string written_paths(const std::vector<std::string>& paths) {
  std::string lines;
  for (const std::string& given : paths) {
    const std::string path = std::filesystem::absolute(given).string();
    const bool utf8 = is_utf8(path);
    for (const char c : path)
      lines += c == '\\' || c == '\n' || (!utf8 && (c & 0x80)) ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c))
                                                               : std::string(1, c);
    lines += "\n";
  }
  return lines;
}

std::vector<std::string> read_paths(const std::string& text) {
  std::vector<std::string> paths;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string& path = paths.emplace_back();
    for (std::size_t i = 0; i < line.size(); ++i) {
      unsigned char byte = 0;
      const char* const code = line.data() + i + 2;
      if (line.compare(i, 2, "\\x") == 0 && i + 4 <= line.size() &&
          std::from_chars(code, code + 2, byte, 16).ptr == code + 2) {
        path += static_cast<char>(byte);
        i += 3;
      } else {
        path += line[i];
      }
    }
  }
  return paths;
}

const std::string& value_of(const tg::Metadata& run, const std::string& key) {
  const auto found = run.find(key);
  must(found != run.end(), "its metadata must give '{}'", key);
  return found->second;
}

/// Lines of metrics.csv from before that step.
const std::string& checked_rows(const std::string& rows, std::int64_t step) {
  std::istringstream lines(rows);
  long long last = 0, at = 0;
  for (std::string line; std::getline(lines, line); last = at) {
    double number[4];
    int end = 0;
    const bool fits = std::sscanf(line.c_str(), "%lld,%lf,%lf,%lf,%lf%n", &at, &number[0], &number[1], &number[2],
                                  &number[3], &end) == 5 &&
                      end == static_cast<int>(line.size()) && !lines.eof() && at > last && at < step &&
                      std::all_of(std::begin(number), std::end(number), [](double x) { return std::isfinite(x); });
    must(fits, "its metadata must give 'metrics' as lines of metrics.csv from before step {}; got '{}'", step, line);
  }
  return rows;
}

double checked_speed(const std::string& text) {
  double speed = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), speed);
  must(error == std::errc() && end == text.data() + text.size() && speed >= 0 && std::isfinite(speed),
       "its metadata must give 'tokens_per_s' as a number from 0; got '{}'", text);
  return speed;
}

void check_same_text(const tg::Metadata& run, const Corpus& corpus) {
  const auto then = run.find("fingerprint");
  const std::string now = fingerprint(corpus);
  must(then != run.end() && then->second == now,
       "the text must be the one that the run began with; its fingerprint was {} and that of {} is {}",
       then == run.end() ? "not noted" : then->second, corpus.name, now);
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
    check(options);
  } catch (const BadInput& error) {
    throw BadInput(fmt::format("--resume: checkpoint '{}': {}", checkpoint_path(options.out), error.what()));
  }
  if (given("--text")) return;
  options.text = read_paths(run["--text"]);
  for (const std::string& path : options.text)
    if (std::error_code error; !std::filesystem::exists(path, error) && !error)
      throw BadInput(fmt::format(
          "--resume '{}': its text '{}' is no longer there; say where it is now with --text FILE", options.out, path));
}

void add_notes(tg::CheckpointNote& note, const RunNotes& notes) {
  note.step = notes.step;
  note.metadata["metrics"] = notes.rows;
  note.metadata["history"] = notes.history.to_json();
  note.metadata["tokens_per_s"] = fmt::to_string(notes.tokens_per_second);
  note.extra = {{"losses", tg::tensor(notes.losses, tg::float64)},
                {"losses_counted", tg::tensor(notes.losses_counted)}};
}

RunNotes read_notes(const std::string& folder, const Corpus& corpus) {
  const std::string path = checkpoint_path(folder);
  const tg::CheckpointNote note = tg::read_checkpoint_note(path);
  try {
    check_same_text(note.metadata, corpus);
    RunNotes notes{.step = note.step,
                   .losses = note.extra.at("losses").item(),
                   .losses_counted = static_cast<std::int64_t>(note.extra.at("losses_counted").item()),
                   .rows = checked_rows(value_of(note.metadata, "metrics"), note.step),
                   .history = History::from_json(value_of(note.metadata, "history")),
                   .tokens_per_second = checked_speed(value_of(note.metadata, "tokens_per_s"))};
    must(
        notes.losses_counted >= std::min<std::int64_t>(notes.step, 1) && notes.losses_counted <= notes.step &&
            std::isfinite(notes.losses),
        "it must have the loss of at least one step, if there was one, and of no more than were done; got step {}, and "
        "the sum {} of {} losses",
        notes.step, notes.losses, notes.losses_counted);
    return notes;
  } catch (const std::runtime_error& error) {
    throw BadInput(fmt::format("--resume: checkpoint '{}': {}", path, error.what()));
  }
}

}  // namespace toy_lm
