// Runs of the program in processes of their own, to stop, to kill and to resume.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <toy_lm/model_file.hpp>
#include <toy_lm/resume.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "error_texts.hpp"

namespace toy_lm {
namespace fs = std::filesystem;
using Milliseconds = std::chrono::duration<double, std::milli>;

inline std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The lines that start so; of metrics and of the last line without the speed, which differs from run to run.
inline std::string lines_with(const std::string& text, const std::string& start) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(start)) result += line.substr(0, line.find(" tokens_per_s")) + "\n";
  return result;
}

/// The program in a folder of its own, with a tiny model and a short text.
class Resume : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    std::string text;
    for (int i = 0; i < 150; ++i) text += "Line " + std::to_string(i * i % 97) + " of the text.\n";
    std::ofstream(path("text.txt")) << text;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Starts it by way of a shell, which it replaces: the process is the program.
  pid_t start(const std::string& arguments, const std::string& program = TAPEGRAD_TOY_LM,
              const std::string& prefix = "") const {
    const std::string command = "cd '" + folder_.string() + "' && exec " + program + " " + arguments + " > " + prefix +
                                "stdout 2> " + prefix + "stderr < /dev/null";
    for (const char* output : {"stdout", "stderr"}) fs::remove(path(prefix + output));  // of a process before
    const char* words[] = {"sh", "-c", command.c_str(), nullptr};
    pid_t process = 0;
    EXPECT_EQ(::posix_spawn(&process, "/bin/sh", nullptr, nullptr, const_cast<char**>(words), environ), 0);
    return process;
  }
  /// Its exit code, or minus the signal that ended it.
  static int end_of(pid_t process) {
    int status = 0;
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// stdout
  std::string run(const std::string& arguments) const {
    EXPECT_EQ(end_of(start(arguments)), 0) << arguments << "\n" << read(path("stderr"));
    return read(path("stdout"));
  }
  /// Exit code 2, nothing on stdout, and one line on stderr with `part`; no file of the run is touched.
  void expect_bad_input(const std::string& arguments, const std::string& part) const {
    SCOPED_TRACE(arguments);
    const std::string before = read(path("run/checkpoint.safetensors")) + read(path("run/metrics.csv"));
    EXPECT_EQ(end_of(start(arguments)), 2);
    const std::string errors = read(path("stderr"));
    EXPECT_EQ(read(path("stdout")), "");
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
    expect_contains(errors, part);
    EXPECT_EQ(read(path("run/checkpoint.safetensors")) + read(path("run/metrics.csv")), before);
  }
  std::string metrics(const std::string& run) const {
    std::istringstream lines(read(path(run + "/metrics.csv")));
    std::string result;
    for (std::string line; std::getline(lines, line);) result += line.substr(0, line.rfind(',')) + "\n";
    return result;
  }
  void expect_same_run(const std::string& a, const std::string& b) const {
    EXPECT_FALSE(read(path(a + "/model.safetensors")).empty());
    EXPECT_TRUE(read(path(a + "/model.safetensors")) == read(path(b + "/model.safetensors")));
    EXPECT_EQ(metrics(a), metrics(b));
    const tg::StateDict x = tg::load_safetensors(checkpoint_path(path(a)));
    const tg::StateDict y = tg::load_safetensors(checkpoint_path(path(b)));
    EXPECT_EQ(x.size(), y.size());
    for (const auto& [name, tensor] : x) EXPECT_TRUE(y.contains(name) && tg::equal(tensor, y.at(name))) << name;
  }
  std::set<std::string> temporary_files(const std::string& run) const {
    std::set<std::string> names;
    if (!fs::exists(path(run))) return names;
    for (const auto& entry : fs::directory_iterator(path(run)))
      if (const std::string name = entry.path().filename(); name.find(".tmp-") != name.npos) names.insert(name);
    return names;
  }

  const std::string small_ =
      "train --text text.txt --layers 1 --heads 2 --width 16 --context 8 --batch 4 --dropout 0.1 ";

 private:
  fs::path folder_ = fs::temp_directory_path() / ("tapegrad-resume-" + std::to_string(::getpid()));
};

}  // namespace toy_lm
