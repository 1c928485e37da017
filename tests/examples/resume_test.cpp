// A training run that is killed at any moment and resumed ends in the bits of one that was left alone.
#include <cmath>
#include <random>
#include <tuple>

#include "training_runs.hpp"

namespace toy_lm {
namespace {

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

TEST_F(Resume, GoesOnFromBeforeTheFirstEvaluation) {
  const std::string settings = small_ + "--eval-every 100000 --schedule-steps 100000 ";
  run(settings + "--steps 20 --out whole");
  const pid_t process = start(settings + "--steps 100000 --out killed");
  for (int waited = 0; waited < 60'000 && !fs::exists(checkpoint_path(path("killed"))); ++waited)
    std::this_thread::sleep_for(Milliseconds(1));
  ::kill(process, SIGKILL);
  EXPECT_EQ(end_of(process), -SIGKILL);
  EXPECT_EQ(tg::read_checkpoint_note(checkpoint_path(path("killed"))).step, 0);
  run("train --resume killed --steps 20");
  expect_same_run("killed", "whole");
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
  expect_bad_input("train --resume run --recipe best", "keeps the settings that it began with");
  expect_bad_input("train --resume run --verify-resume", "--verify-resume: can't be given with --resume");
  fs::rename(path("text.txt"), path("moved.txt"));
  expect_bad_input("train --resume run", "text.txt' is no longer there; say where it is now with --text FILE");
  run("train --resume run --text moved.txt --steps 25");
  std::ofstream(path("moved.txt"), std::ios::app) << "more";
  expect_bad_input("train --resume run --text moved.txt", "the text must be the one");
}

TEST_F(Resume, ATextMayHaveAnyName) {
  for (const std::string name : {"two\nlines", "back\\slash\\x41", " and 'quotes'\"", "\xff", ""}) {
    const std::string text = "a\\b" + name + ".txt";
    fs::copy_file(path("text.txt"), path(text));
    fs::create_directories(path("folder"));
    std::ofstream(path("folder/run.sh")) << "exec " TAPEGRAD_TOY_LM
                                            " train --layers 1 --heads 1 --width 8 --context 8 "
                                            "--batch 2 --steps 4 --overwrite --out run --text ../a*.txt\n";
    EXPECT_EQ(end_of(start("", "sh -c 'cd folder && sh run.sh'")), 0) << read(path("stderr"));
    run("train --resume folder/run --steps 5");
    fs::remove(path(text));
  }
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
  const std::tuple<const char*, const char*, const char*> values[] = {
      {"--tokenizer", "xx", "--tokenizer: must be one of char, bpe; got xx"},
      {"--optimizer", "newton", "--optimizer: must be one of adamw, "},
      {"--blocks", "gpt9", "--blocks: must be one of gpt2, modern; got gpt9"},
      {"--eval-every", "0", "--eval-every: must be a whole number from 1"},
      {"metrics", "garbage", "must give 'metrics' as lines of metrics.csv from before step 4; got 'garbage'"},
      {"metrics", "2,1,1,1,1\n4,1,1,1,1\n", "got '4,1,1,1,1'"},
      {"metrics", "2,1,1,1,1", "got '2,1,1,1,1'"},
      {"metrics", "2,1,nan,1,1\n", "got '2,1,nan,1,1'"},
      {"history", "garbage", "history: must be what an earlier run has noted"},
      {"history", R"({"records":[],"width":0,"filled":0,"samples":[]})", "history: must be what"},
      {"history", R"({"records":[[1,1,1,1,1]],"width":2,"filled":3,"samples":[]})", "history: must be what"},
      {"tokens_per_s", "-1", "must give 'tokens_per_s' as a number from 0; got '-1'"},
      {"tokens_per_s", "fast", "must give 'tokens_per_s' as a number from 0; got 'fast'"}};
  for (const auto& [key, value, text] : values) {
    for (const bool there : {true, false}) {
      tg::Metadata metadata = content.metadata;
      metadata[key] = value;
      if (!there) metadata.erase(key);
      tg::save_safetensors(file, content.entries, metadata);
      expect_bad_input("train --resume run",
                       there ? std::string(text) : std::string("must give ") + (key[0] == '-' ? "" : "'") + key);
      expect_contains(read(path("stderr")), "run/checkpoint.safetensors");
    }
  }
  for (const auto& [name, value] : {std::pair{"losses", NAN}, {"losses_counted", 0.0}, {"losses_counted", 5.0}}) {
    tg::StateDict entries = content.entries;
    entries.set(std::string("extra.") + name, tg::tensor(value, tg::float64));
    tg::save_safetensors(file, entries, content.metadata);
    expect_bad_input("train --resume run", "run/checkpoint.safetensors': it must have the loss of at least one step");
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
    expect_contains(errors, "no step was saved");
    EXPECT_EQ(tg::read_checkpoint_note(checkpoint_path(path("run"))).step, 0);  // another run may begin there
  }
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
