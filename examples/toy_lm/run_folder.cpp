#include "run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include <tapegrad/training/checkpoint.hpp>

#include "bad_input.hpp"

namespace toy_lm {
namespace {

constexpr const char* kCheckpoint = "checkpoint.safetensors";
constexpr const char* kModel = "model.safetensors";

std::string number_in(int file) {
  char text[32];
  const ssize_t size = ::pread(file, text, sizeof text, 0);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

/// The error number, 0 if all was written.
int write_number(int file) {
  const std::string number = std::to_string(::getpid());
  if (::ftruncate(file, 0) != 0) return errno;
  const ssize_t written = ::pwrite(file, number.data(), number.size(), 0);
  return written < 0 ? errno : written < static_cast<ssize_t>(number.size()) ? ENOSPC : 0;
}

/// Of a file that the kernel unlocks when the process ends, and that the programs it starts don't inherit. In it stands
/// the number of the process that locked it last. Writing that shows that the folder can be written.
int lock_file(const std::string& path, const std::string& folder, const std::string& option) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  int error = file < 0 ? errno : 0;
  if (!error && ::flock(file, LOCK_EX | LOCK_NB) != 0) error = errno;
  if (error == EWOULDBLOCK) {
    const std::string process = number_in(file);
    ::close(file);
    throw BadInput(fmt::format("{}: '{}' is in use by another run (process {}); wait or take another folder", option,
                               folder, process.empty() ? "not yet known" : process));
  }
  if (!error) error = write_number(file);
  if (!error) return file;
  if (file >= 0) ::close(file);
  throw BadInput(fmt::format("{} '{}': must be a folder that can be written; {}", option, folder,
                             std::generic_category().message(error)));
}

/// A checkpoint from before the first step is nothing to lose; one that can't be read may be.
bool holds_steps(const std::string& checkpoint) {
  std::error_code none;
  if (!std::filesystem::exists(checkpoint, none)) return false;
  try {
    return tapegrad::read_checkpoint_note(checkpoint).step > 0;
  } catch (const tapegrad::FileError&) {
    return true;
  }
}

}  // namespace

RunFolder::RunFolder(const std::string& path, const std::string& option) {
  const std::filesystem::path folder = path;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder)) error = std::make_error_code(std::errc::not_a_directory);
  if (error)
    throw BadInput(fmt::format("{} '{}': must be a folder that can be written; {}", option, path, error.message()));
  for (const char* name : {kModel, kCheckpoint, "metrics.csv", "report.html"})
    if (std::filesystem::is_directory(folder / name, error))
      throw BadInput(fmt::format("{} '{}': a folder named {} is in the way", option, path, name));
  const auto metrics = folder / "metrics.csv";
  if (std::filesystem::is_regular_file(metrics, error) && !std::ofstream(metrics, std::ios::app))
    throw BadInput(fmt::format("{} '{}': metrics.csv is there and can't be written", option, path));
  lock_ = lock_file(folder / ".toy_lm-lock", path, option);
}

RunFolder::~RunFolder() { ::close(lock_); }

void expect_no_run(const std::string& folder) {
  std::error_code none;
  const bool checkpoint = holds_steps(folder + "/" + kCheckpoint);
  if (checkpoint || std::filesystem::exists(folder + "/" + kModel, none))
    throw BadInput(fmt::format(
        "--out '{}': must be a folder without a run; it holds a {}; {}take another --out, or "
        "start anew with --overwrite",
        folder, checkpoint ? kCheckpoint : kModel, checkpoint ? fmt::format("go on with --resume {}, ", folder) : ""));
}

void remove_run(const std::string& folder) {
  for (const char* name : {kCheckpoint, kModel, "metrics.csv", "report.html", "attention.html"}) {
    std::error_code error;
    std::filesystem::remove(folder + "/" + name, error);
    if (error) throw BadInput(fmt::format("--overwrite: '{}/{}' can't be removed; {}", folder, name, error.message()));
  }
}

}  // namespace toy_lm
