// A training run that is stopped, or killed at any moment, and resumed ends in the bits of one that was left alone.
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
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "error_texts.hpp"

namespace toy_lm {
namespace {

namespace fs = std::filesystem;
using Milliseconds = std::chrono::duration<double, std::milli>;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The lines that start so; of metrics and of the last line without the speed, which differs from run to run.
std::string lines_with(const std::string& text, const std::string& start) {
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

TEST_F(Resume, AHundredKillsEndInTheBitsOfTheRunThatWasLeftAlone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kKills = 20;  // each start takes far longer
#else
  constexpr int kKills = 100;
#endif
  const std::string settings = small_ + "--steps 60 --save-every 1 --eval-every 8 --threads 1 --out ";
  run(settings + "whole");
  std::mt19937 random(42);
  double longest = 40;  // milliseconds that a process may live
  int kills = 0, within_saves = 0, runs = 0;
  while (kills < kKills) {
    ++runs;
    std::int64_t step = 0;
    std::set<std::string> left;
    for (bool done = false; !done;) {
      const bool resumes = fs::exists(checkpoint_path(path("killed")));
      const pid_t process = start(resumes ? "train --resume killed --threads 1" : settings + "killed");
      if (kills < kKills) {
        std::this_thread::sleep_for(Milliseconds(std::uniform_real_distribution<double>(0, longest)(random)));
        ::kill(process, SIGKILL);
      }
      const int end = end_of(process);
      done = end == 0;
      if (done) break;
      ASSERT_EQ(end, -SIGKILL) << read(path("stderr"));
      ++kills;
      const std::set<std::string> now = temporary_files("killed");
      std::set<std::string> targets;
      for (const std::string& name : now) targets.insert(name.substr(0, name.find(".tmp-")));
      EXPECT_EQ(now.size(), targets.size()) << "those of earlier kills must go";
      within_saves += !now.empty() && now != left;
      left = now;
      const std::int64_t before = step;
      if (fs::exists(checkpoint_path(path("killed")))) {
        ASSERT_NO_THROW(step = tg::read_checkpoint_note(checkpoint_path(path("killed"))).step);
      }
      if (fs::exists(path("killed/model.safetensors"))) {
        ASSERT_NO_THROW(load_model(path("killed/model.safetensors")));
      }
      ASSERT_GE(step, before);
      if (step == before) longest *= 1.1;  // on a slow machine a process must live long enough to get anywhere
    }
    expect_same_run("killed", "whole");
    EXPECT_TRUE(temporary_files("killed").empty());
    fs::remove_all(path("killed"));
  }
  std::printf("%d kills, %d of them within saves, in %d runs of 60 steps\n", kills, within_saves, runs);
  RecordProperty("kills", kills);
}

TEST_F(Resume, AnInterruptedRunSavesAndPrintsTheCommandThatGoesOn) {
  const std::string settings = small_ + "--steps 3000 --eval-every 500 --save-every 100 --out ";
  const std::string whole = run(settings + "whole");
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}}) {
    const pid_t process = start(settings + "'it is here'");
    while (!fs::exists(path("it is here/checkpoint.safetensors"))) std::this_thread::sleep_for(Milliseconds(1));
    ::kill(process, signal);
    EXPECT_EQ(end_of(process), code);
    const std::string output = read(path("stdout"));
    EXPECT_EQ(read(path("stderr")), "");
    const auto position = output.find("to go on:\n");
    ASSERT_NE(position, std::string::npos) << output;
    EXPECT_EQ(end_of(start("", output.substr(position + 10, output.find('\n', position + 10) - position - 10))), 0);
    const std::string rest = read(path("stdout"));
    expect_contains(rest, "goes on after step");
    EXPECT_EQ(lines_with(output, "eval step") + lines_with(rest, "eval step"), lines_with(whole, "eval step"));
    EXPECT_EQ(lines_with(rest, "final:"), lines_with(whole, "final:"));
    const auto report = [](const std::string& text) {
      const auto begin = text.find("\n\n", text.find("final:"));
      return text.substr(begin, text.find("\nmodel:") - begin);
    };
    EXPECT_EQ(report(rest), report(whole)) << "heads and sample";
    expect_same_run("it is here", "whole");
    fs::remove_all(path("it is here"));
  }
}

TEST_F(Resume, MoreStepsAreThoseOfALongerRunWithTheSameSchedule) {
  for (const char* every : {"20", "15"}) {
    const std::string settings = small_ + "--warmup 5 --overwrite --eval-every " + every + " ";
    run(settings + "--steps 60 --schedule-steps 40 --out whole");
    run(settings + "--steps 40 --out parts");
    run("train --resume parts --steps 60");
    expect_same_run("parts", "whole");
    run("train --resume parts");  // done already: the end once more
    expect_same_run("parts", "whole");
    EXPECT_NE(metrics("parts").find("60,"), std::string::npos);
    EXPECT_NE(metrics("parts").find(",1.000000e-04"), std::string::npos) << "the rate stays at --min-lr";
  }
}

TEST_F(Resume, WhatIsNotTheSameRunIsRefused) {
  run(small_ + "--steps 20 --eval-every 10 --out run");
  expect_bad_input("train --resume nowhere", "nowhere/checkpoint.safetensors");
  expect_bad_input("train --resume run --out other", "--resume");
  for (const char* option : {"train --resume", "train --out", "train --text", "generate --from", "attention --from",
                             "attention --html", "info"})
    expect_bad_input(std::string(option) + " ''", "must be the name of a file or folder; got an empty one");
  expect_bad_input("train --resume run --steps 19", "--steps: must be at least 20");
  expect_bad_input("train --resume run --lr 0.01 --layers 1 --width 32",
                   "got --lr 0.01 (was 0.001), --width 32 (was 16); leave them out");
  run("train --resume run --lr 1e-3 --layers 1 --save-every 3 --threads 2");  // the same, and what may differ
  fs::rename(path("text.txt"), path("moved.txt"));
  expect_bad_input("train --resume run", "text.txt");
  run("train --resume run --text moved.txt --steps 25");
  std::ofstream(path("moved.txt"), std::ios::app) << "more";
  expect_bad_input("train --resume run --text moved.txt", "the text must be the one");
}

TEST_F(Resume, DamagedAndForeignCheckpointsAreRefused) {
  run(small_ + "--steps 4 --out run");
  const std::string file = path("run/checkpoint.safetensors");
  const std::string good = read(file);
  const tg::AnnotatedStateDict content = tg::load_annotated_safetensors(file);
  fs::resize_file(file, good.size() - 1);
  expect_bad_input("train --resume run", "damaged");
  fs::copy_file(path("run/model.safetensors"), file, fs::copy_options::overwrite_existing);
  expect_bad_input("train --resume run", "must be a checkpoint");
  const std::pair<const char*, const char*> keys[] = {
      {"program", "another program"}, {"--lr", "give --lr"}, {"--steps", "give --steps"}, {"fingerprint", "not noted"}};
  for (const auto& [key, text] : keys) {
    tg::Metadata metadata = content.metadata;
    metadata.erase(key);
    tg::save_safetensors(file, content.entries, metadata);
    expect_bad_input("train --resume run", text);
  }
  for (const char* name : {"losses", "losses_counted"}) {
    tg::StateDict entries = content.entries;
    ASSERT_TRUE(entries.erase(std::string("extra.") + name));
    tg::save_safetensors(file, entries, content.metadata);
    expect_bad_input("train --resume run", name);
  }
  std::ofstream(file, std::ios::binary) << good;
  run("train --resume run");
}

TEST_F(Resume, ARunThatIsNoLongerFiniteSavesNothing) {
  const std::pair<const char*, const char*> faults[] = {
      {"--steps 50 --warmup 0 --lr 1e38", "step 2: the loss is"},
      {"--steps 50 --warmup 0 --save-every 1 --lr 3e38 --weight-decay 3e38", "step 1: the update is"}};
  for (const auto& [options, text] : faults) {
    EXPECT_EQ(end_of(start(small_ + "--out run " + options)), 1);
    const std::string errors = read(path("stderr"));
    expect_contains(errors, text);
    expect_contains(errors, "the first parameter at fault is token.weight");
    expect_contains(errors, "nothing was saved");
    EXPECT_FALSE(fs::exists(path("run/checkpoint.safetensors")));
  }
}

TEST_F(Resume, AFolderWithARunIsOnlyOverwrittenOnRequest) {
  const std::string out = small_ + "--out run ";
  run(out + "--steps 20 --eval-every 10");
  const std::string model = read(path("run/model.safetensors"));
  expect_bad_input(out + "--steps 3",
                   "it holds a checkpoint.safetensors; go on with --resume run, take another --out, or start anew with "
                   "--overwrite");
  fs::remove(path("run/checkpoint.safetensors"));
  expect_bad_input(out + "--steps 3", "it holds a model.safetensors; take another --out");
  EXPECT_TRUE(read(path("run/model.safetensors")) == model);
  std::ofstream(path("run/attention.html")) << "of the run before";
  const pid_t process = start(out + "--overwrite --steps 1000000 --eval-every 1000000");
  while (read(path("stdout")).find("step ") == std::string::npos) std::this_thread::sleep_for(Milliseconds(1));
  ::kill(process, SIGTERM);
  EXPECT_EQ(end_of(process), 143);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(path("run"))) files.insert(entry.path().filename());
  EXPECT_EQ(files, (std::set<std::string>{".toy_lm-lock", "checkpoint.safetensors"})) << "stopped before it evaluated";
  expect_bad_input("train --resume run --overwrite", "--overwrite");
}

TEST_F(Resume, AFolderIsOneRunsAlone) {
  const std::string settings = small_ + "--steps 1000000 --eval-every 1000000 --save-every 1 --out run";
  const pid_t first = start(settings, TAPEGRAD_TOY_LM, "first.");
  while (!fs::exists(path("run/checkpoint.safetensors"))) std::this_thread::sleep_for(Milliseconds(1));
  const std::string in_use = ": 'run' is in use by another run (process " + std::to_string(first) + "); wait";
  for (const auto& [command, option] :
       {std::pair<std::string, std::string>{settings + " --overwrite", "--out"}, {"train --resume run", "--resume"}}) {
    EXPECT_EQ(end_of(start(command)), 2);
    EXPECT_EQ(read(path("stdout")), "");
    expect_contains(read(path("stderr")), "toy_lm: " + option + in_use);
  }
  ::kill(first, SIGKILL);
  EXPECT_EQ(end_of(first), -SIGKILL);
  const std::int64_t step = tg::read_checkpoint_note(checkpoint_path(path("run"))).step;
  run("train --resume run --steps " + std::to_string(step + 1));  // the lock has gone with its process
}

TEST_F(Resume, TheProgramProvesItself) {
  expect_contains(run(small_ + "--steps 31 --eval-every 10 --verify-resume"),
                  "verify-resume: 31 steps and 15 + 16 in two processes end in the same bits");
  expect_contains(run(small_ + "--steps 11 --eval-every 4 --recipe best --ema 0.9 --accumulate 2 --verify-resume"),
                  "in the same bits");
  for (const char* optimizer : {"sgd", "adam", "lion", "rmsprop"})
    expect_contains(run(small_ + "--steps 7 --verify-resume --optimizer " + optimizer), "in the same bits");
  EXPECT_FALSE(fs::exists(path("toy_lm-out")));
  expect_bad_input(small_ + "--verify-resume --steps 1", "--steps");
  expect_bad_input(small_ + "--verify-resume --out x", "--verify-resume");
}

TEST_F(Resume, AProofThatIsToldToStopStopsItsRuns) {
  const pid_t process = start(small_ + "--steps 1000000 --eval-every 500000 --verify-resume");
  while (read(path("stdout")).find("model of") == std::string::npos) std::this_thread::sleep_for(Milliseconds(5));
  ::kill(process, SIGTERM);  // that one alone
  EXPECT_EQ(end_of(process), 143);
  EXPECT_EQ(read(path("stderr")), "");
}

/// A new option must be a setting, or be known to change nothing of what is learnt but by way of settings.
TEST_F(Resume, ACheckpointKnowsEveryOption) {
  run(small_ + "--steps 1 --out run");
  const tg::Metadata known = tg::read_checkpoint_note(checkpoint_path(path("run"))).metadata;
  const std::set<std::string> others = {"--help",    "--out",    "--resume",   "--verify-resume",
                                        "--threads", "--recipe", "--overwrite"};
  std::istringstream lines(run("train --help"));
  int settings = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto start = line.find("--");
    if (start == line.npos || start > 6) continue;
    const std::string option = line.substr(start, line.find_first_of(" ,=", start) - start);
    EXPECT_TRUE(known.contains(option) || others.contains(option)) << option;
    settings += known.contains(option);
  }
  EXPECT_GE(settings, 17);
}

}  // namespace
}  // namespace toy_lm
