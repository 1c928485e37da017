// What a run does when it is asked to stop, and whose folder it is.
#include <pty.h>
#include <sys/stat.h>

#include <cctype>

#include "training_runs.hpp"

namespace toy_lm {
namespace {

class Stopping : public Resume {};

TEST_F(Stopping, AnInterruptedRunSavesAndPrintsTheCommandThatGoesOn) {
  const std::string settings = small_ + "--steps 3000 --eval-every 500 --save-every 100 --out ";
  const std::string whole = run(settings + "whole");
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}}) {
    const pid_t process = start(settings + "'it is here'");
    while (!fs::exists(path("it is here/metrics.csv"))) std::this_thread::sleep_for(Milliseconds(1));  // in its midst
    ::kill(process, signal);
    for (int i = 0; i < 20 && signal == SIGHUP; ++i) {  // the terminal and the shell both send it
      std::this_thread::sleep_for(Milliseconds(0.1));
      ::kill(process, signal);
    }
    const int end = end_of(process);
    EXPECT_TRUE(end == code || (signal == SIGHUP && end == -SIGHUP)) << end << " (the last may come when all is saved)";
    const std::string output = read(path("stdout"));
    EXPECT_EQ(read(path("stderr")), signal == SIGHUP ? "" : "stopping after this step; again: stop now, unsaved\n");
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

TEST_F(Stopping, AFolderWithARunIsOnlyOverwrittenOnRequest) {
  const std::string out = small_ + "--out run ";
  run(out + "--steps 20 --eval-every 10");
  const std::string model = read(path("run/model.safetensors"));
  expect_bad_input(out + "--steps 3",
                   "it holds a checkpoint.safetensors; go on with --resume run, take another --out, or start anew with "
                   "--overwrite");
  fs::remove(path("run/checkpoint.safetensors"));
  expect_bad_input(out + "--steps 3", "it holds a model.safetensors; take another --out");
  EXPECT_TRUE(read(path("run/model.safetensors")) == model);
  expect_bad_input("train --overwrite --out run --text missing.txt", "missing.txt");  // before anything is removed
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

TEST_F(Stopping, AFolderIsOneRunsAlone) {
  const std::string settings = small_ + "--eval-every 1000000 --save-every 1 --out run --steps ";
  const pid_t first = start(settings + "1000000", TAPEGRAD_TOY_LM, "first.");
  while (!fs::exists(path("run/checkpoint.safetensors"))) std::this_thread::sleep_for(Milliseconds(1));
  const std::string in_use = ": 'run' is in use by another run (process " + std::to_string(first) + "); wait";
  for (const auto& [command, option] :
       {std::pair<std::string, std::string>{settings + "2 --overwrite", "--out"}, {"train --resume run", "--resume"}}) {
    EXPECT_EQ(end_of(start(command)), 2);
    EXPECT_EQ(read(path("stdout")), "");
    expect_contains(read(path("stderr")), "toy_lm: " + option + in_use);
  }
  ::kill(first, SIGKILL);
  EXPECT_EQ(end_of(first), -SIGKILL);
  const std::int64_t step = tg::read_checkpoint_note(checkpoint_path(path("run"))).step;
  run("train --resume run --steps " + std::to_string(step + 1));  // the lock has gone with its process
}

TEST_F(Stopping, WhatIsPrintedGoesIntoNoFileOfTheRun) {
  const std::string command = TAPEGRAD_TOY_LM " " + small_ + "--steps 4 --out run";
  EXPECT_EQ(end_of(start("", "sh -c '" + command + " >&-'")), 1);
  const std::string lock = read(path("run/.toy_lm-lock"));
  EXPECT_EQ(lock.find_first_not_of("0123456789"), lock.npos) << lock;
}

TEST_F(Stopping, AnEvaluationIsLeftWhenARunIsAskedToStop) {
  const std::string settings = "train --steps 1 --layers 3 --heads 2 --width 32 --context 8 --batch 1 --out ";
  run(settings + "whole");
  const pid_t process = start(settings + "run");
  while (read(path("stdout")).find("step 1/1") == std::string::npos) std::this_thread::sleep_for(Milliseconds(1));
  ::kill(process, SIGINT);
  EXPECT_EQ(end_of(process), 130);
  EXPECT_FALSE(fs::exists(path("run/model.safetensors"))) << "the evaluation was over before the signal came";
  expect_contains(read(path("stdout")), "stopped after step 1;");
  const std::string info = run("info run");
  for (const char* part : {"no model before the first evaluation; toy_lm train --resume run goes on", "steps done: 1",
                           "--layers 3", "the built-in corpus", "checkpoint.safetensors"})
    expect_contains(info, part);
  for (const char* command : {"generate", "attention --prompt a"})
    expect_bad_input(std::string(command) + " --from run", "go on with 'toy_lm train --resume run'");
  expect_bad_input("generate --from nowhere", "is not there; train one with 'toy_lm train --out nowhere'");
  run("train --resume run");
  expect_same_run("run", "whole");
}

TEST_F(Stopping, ATerminalThatIsClosedStopsTheRunWithACheckpoint) {
  int terminal = -1;
  const pid_t process = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (process == 0) {
    const std::string command = "cd '" + path("") + "' && exec " TAPEGRAD_TOY_LM " " + small_ +
                                "--steps 100000000 --eval-every 10 --save-every 1000000 --out run";
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string seen;
  char part[4096];
  while (seen.find("step 250:") == std::string::npos) {
    const ssize_t size = ::read(terminal, part, sizeof part);
    ASSERT_GT(size, 0) << seen;
    seen.append(part, static_cast<std::size_t>(size));
  }
  ::close(terminal);
  EXPECT_EQ(end_of(process), 129);
  EXPECT_GE(tg::read_checkpoint_note(checkpoint_path(path("run"))).step, 250);
  // Renewed often enough that evaluations, which take most of the time here, came between.
  const auto line = seen.substr(seen.rfind("\r\x1b[K", seen.rfind(" left")));
  long long step = 0, hours = 0, minutes = 0, seconds = 0;
  double speed = 0;
  ASSERT_EQ(
      std::sscanf(line.c_str(), "\r\x1b[Kstep %lld/100000000  loss %*f  lr %*f  %lf tokens/s  %lld:%lld:%lld left",
                  &step, &speed, &hours, &minutes, &seconds),
      5)
      << line;
  const double left = static_cast<double>((hours * 60 + minutes) * 60 + seconds);
  EXPECT_NEAR(speed * left, static_cast<double>((100000000 - step) * 4 * 8), 0.02 * 1e8 * 4 * 8) << line;
}

TEST_F(Stopping, ARunWhoseReaderIsGoneSavesWhenItIsAskedToStop) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const pid_t process = start(small_ + "--steps 1000000 --eval-every 1000000 --out run",
                              "sh -c 'exec " TAPEGRAD_TOY_LM " \"$@\" > pipe' sh");
  {
    std::ifstream pipe(path("pipe"));
    std::string line;
    while (std::getline(pipe, line) && !line.starts_with("step ")) continue;
  }
  ::kill(process, SIGTERM);
  EXPECT_EQ(end_of(process), 143);
  EXPECT_GE(tg::read_checkpoint_note(checkpoint_path(path("run"))).step, 1);
}

TEST_F(Stopping, TheTimeLeftOfAResumedRunIsThatOfItsOwnSteps) {
  run(small_ + "--steps 5000 --eval-every 5000 --out run");
  const pid_t process = start("train --resume run --steps 100000000");
  std::string line;
  while (line.find(" left\n") == std::string::npos) {
    std::this_thread::sleep_for(Milliseconds(1));
    line = lines_with(read(path("stdout")), "step ");
  }
  ::kill(process, SIGTERM);
  EXPECT_EQ(end_of(process), 143);
  long long hours = 0, minutes = 0;
  double speed = 0;
  ASSERT_EQ(std::sscanf(line.c_str(), "step %*d/100000000  loss %*f  lr %*f  %lf tokens/s  %lld:%lld:", &speed, &hours,
                        &minutes),
            3);
  const double left = static_cast<double>(hours * 60 + minutes) * 60;
  EXPECT_NEAR(speed * left, 1e8 * 4 * 8, 0.05 * 1e8 * 4 * 8) << line;
}

TEST_F(Stopping, AFileThatMustNotGrowIsAMessage) {
  const std::string limited = "sh -c 'ulimit -f 16; exec " TAPEGRAD_TOY_LM " \"$@\"' sh";
  EXPECT_EQ(end_of(start(small_ + "--steps 2 --out run", limited)), 1);
  expect_contains(read(path("stderr")), "File too large");
}

/// Its folder of /proc.
std::string child_of(pid_t parent) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (!std::isdigit(entry.path().filename().string()[0])) continue;
    const std::string state = read(entry.path() / "stat");
    int number = 0;
    if (const auto end = state.rfind(") ");
        end != state.npos && std::sscanf(state.c_str() + end, ") %*c %d", &number) == 1)
      if (number == parent) return entry.path();
  }
  ADD_FAILURE() << "no process of " << parent;
  return "/proc/none";
}

TEST_F(Stopping, AProofThatIsToldToStopStopsItsRunsAndKeepsNothing) {
  fs::create_directories(path("tmp"));
  const std::string program = "env TMPDIR='" + path("tmp") + "' " TAPEGRAD_TOY_LM;
  const std::string proof = small_ + "--steps 1000000 --eval-every 500000 --verify-resume";
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    const pid_t process = start(proof, program);
    while (read(path("stdout")).find("model of") == std::string::npos) std::this_thread::sleep_for(Milliseconds(5));
    EXPECT_FALSE(fs::is_empty(path("tmp")));
    const std::string run = child_of(process);
    ::kill(process, signal);  // that one alone
    if (signal == SIGINT) ::kill(process, signal);
    EXPECT_EQ(end_of(process), signal == SIGKILL ? -SIGKILL : 128 + signal);
    EXPECT_EQ(read(path("stderr")), "");
    EXPECT_EQ(read(path("stdout")).find("to go on"), std::string::npos);
    EXPECT_EQ(fs::is_empty(path("tmp")), signal != SIGKILL);
    const auto runs = [&] {
      const std::string state = read(run + "/stat");
      return !state.empty() && state.find(") Z") == std::string::npos;
    };
    for (int i = 0; i < 1000 && runs(); ++i) std::this_thread::sleep_for(Milliseconds(5));
    EXPECT_FALSE(runs()) << "an orphan";
  }
}

TEST_F(Stopping, AProofThatCanNotBeginSaysWhy) {
  expect_bad_input(small_ + "--verify-resume --text missing.txt", "missing.txt");
  EXPECT_EQ(end_of(start(small_ + "--verify-resume", "env TMPDIR=/nowhere " TAPEGRAD_TOY_LM)), 2);
  expect_contains(read(path("stderr")), "--verify-resume: there must be a folder for temporary files");
  EXPECT_EQ(run(small_ + "--steps 2 --verify-resume").find("model:"), std::string::npos) << "names files that are gone";
}

}  // namespace
}  // namespace toy_lm
