#include "info.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "bad_input.hpp"
#include "model_file.hpp"
#include "resume.hpp"

namespace toy_lm {
namespace {

tg::CheckpointNote read_note(const std::string& path) {
  try {
    return tg::read_checkpoint_note(path);
  } catch (const tg::FileError& error) {
    throw BadInput(error.what());
  }
}

void show_settings(const std::string& path) {
  if (!std::filesystem::exists(path)) return fmt::print("\nno checkpoint: the settings of the run are not known\n");
  const tg::CheckpointNote note = read_note(path);
  const auto text = note.metadata.find("--text");
  if (text == note.metadata.end()) return fmt::print("\nthe checkpoint is another program's\n");
  fmt::print("\nsteps done: {}; settings:\n ", note.step);
  std::size_t column = 0;
  for (const auto& [option, value] : note.metadata) {
    if (option.rfind("--", 0) != 0 || option == "--text") continue;
    column += fmt::formatted_size(" {} {}", option, value);
    if (column > 78) {
      fmt::print("\n ");
      column = fmt::formatted_size(" {} {}", option, value);
    }
    fmt::print(" {} {}", option, value);
  }
  fmt::print("\ntext: {}\n", text->second.empty() ? "the built-in corpus\n" : "\n" + text->second);
}

void show_losses(const std::string& path) {
  std::ifstream metrics(path);
  for (std::string line; std::getline(metrics, line);) {
    for (std::size_t comma = 0; (comma = line.find(',')) != line.npos;) line.replace(comma, 1, "\t");
    fmt::print("{}\n", line);
  }
}

}  // namespace

void show_run(const std::string& folder) {
  const std::string model = folder + "/model.safetensors", checkpoint = checkpoint_path(folder);
  if (std::error_code error; std::filesystem::exists(model, error) || !std::filesystem::exists(checkpoint, error)) {
    const SavedModel saved = load_model(model);
    fmt::print("{}\nknows {} tokens\n", saved.model.to_string(), saved.vocabulary.size());
  } else {
    fmt::print("no model before the first evaluation; toy_lm train --resume {} goes on\n", folder);
  }
  show_settings(checkpoint);
  for (const char* name : {"model.safetensors", "checkpoint.safetensors", "metrics.csv", "report.html"})
    if (const std::string path = folder + "/" + name; std::filesystem::is_regular_file(path))
      fmt::print("{:>10} bytes  {}\n", std::filesystem::file_size(path), path);
  fmt::print("\n");
  show_losses(folder + "/metrics.csv");
}

}  // namespace toy_lm
