// Checkpoints: what is put back, what is refused, and that a refusal changes nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tg = tapegrad;
namespace fs = std::filesystem;

namespace {

struct Net : tg::nn::Module {
  explicit Net(std::int64_t hidden = 8) : in(register_module("in", tg::nn::Linear(3, hidden))) {}
  tg::nn::Linear in;
  tg::nn::Dropout drop = register_module("drop", tg::nn::Dropout(0.2));
  tg::Tensor seen = register_buffer("seen", tg::zeros({1}, tg::float64));
  tg::Tensor forward(const tg::Tensor& x) { return drop(tg::nn::gelu(in(x))); }
};

/// A loader of data as far as a checkpoint knows it.
struct Rows {
  std::int64_t next = 0;
  tg::StateDict state_dict() const { return {{"next", tg::tensor(next)}}; }
  void load_state_dict(const tg::StateDict& entries) { next = entries.at("next").to_vector<std::int64_t>().at(0); }
};

/// A whole run: everything that remembers.
struct Training {
  explicit Training(std::int64_t hidden = 8, std::int64_t groups = 1) : net(hidden) {
    if (groups == 2) optimizer.add_param_group({.parameters = {tg::ones({2}).requires_grad_()}});
  }
  Net net;
  tg::optim::AdamW optimizer{net.parameters(), {.lr = 1e-2}};
  tg::optim::CosineSchedule schedule{optimizer, {.total_steps = 20, .warmup_steps = 3}};
  tg::optim::Ema ema{net.parameters(), 0.9};
  Rows rows;

  tg::CheckpointParts parts() { return {.schedule = schedule, .ema = ema, .data = rows}; }
  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      const tg::Tensor loss = tg::mean(tg::square(net.forward(tg::randn({4, 3}) + static_cast<double>(rows.next++))));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      schedule.step();
      ema.update();
    }
  }
  /// Copies of everything that a checkpoint holds.
  tg::StateDict everything() {
    tg::StateDict all{{"random", tg::tensor({static_cast<std::int64_t>(tg::random_state().seed),
                                             static_cast<std::int64_t>(tg::random_state().position)})}};
    const std::pair<const char*, tg::StateDict> states[] = {{"net.", net.state_dict()},
                                                            {"optimizer.", optimizer.state_dict()},
                                                            {"schedule.", schedule.state_dict()},
                                                            {"ema.", ema.state_dict()},
                                                            {"rows.", rows.state_dict()}};
    for (const auto& [prefix, entries] : states)
      for (const auto& [name, tensor] : entries) all.set(prefix + name, tensor.detach().clone());
    return all;
  }
};

void expect_same(const tg::StateDict& a, const tg::StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_EQ(tensor.dtype(), b.at(name).dtype()) << name;
    EXPECT_TRUE(tg::equal(tensor, b.at(name))) << name;
  }
}

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name = "run.safetensors") const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  /// The error's text; whatever is in `run` must be as it was.
  static std::string refused(Training& run, const std::function<void()>& load) {
    const tg::StateDict before = run.everything();
    std::string text = "nothing was thrown";
    try {
      load();
    } catch (const tg::FileError& error) {
      text = error.what();
    }
    expect_same(run.everything(), before);
    return text;
  }

 private:
  fs::path folder_ = fs::temp_directory_path() / ("tapegrad-checkpoint-" + std::to_string(::getpid()));
};

TEST_F(Checkpoint, AResumedRunHasTheBitsOfOneThatWasNotStopped) {
  tg::manual_seed(1);
  Training whole;
  tg::nn::init::normal_(whole.net.seen, 0.0, 1.0);
  whole.train(5);
  tg::save_checkpoint(path(), whole.net, whole.optimizer, whole.parts(),
                      {.step = 5, .metadata = {{"note", "a \"b\"\n"}}, .extra = {{"history.0", tg::arange(3)}}});
  const tg::StateDict saved = whole.everything();
  whole.train(4);

  tg::manual_seed(77);
  Training resumed;
  resumed.train(2);  // what was there before does not matter
  const tg::CheckpointNote note = tg::load_checkpoint(path(), resumed.net, resumed.optimizer, resumed.parts());
  expect_same(resumed.everything(), saved);
  EXPECT_EQ(note.step, 5);
  EXPECT_EQ(note.metadata, (tg::Metadata{{"note", "a \"b\"\n"}}));
  EXPECT_TRUE(tg::equal(note.extra.at("history.0"), tg::arange(3)));
  EXPECT_EQ(note.extra.size(), 1u);
  EXPECT_EQ(tg::read_checkpoint_note(path()).step, 5);
  resumed.train(4);
  expect_same(resumed.everything(), whole.everything());
}

/// Adam, lr 0.1, from p = 1 with gradients 1, 1, 1, 0.1: 0.61486963; if moments or steps were lost, 0.60000001.
TEST_F(Checkpoint, MomentsAndStepCountAreThere) {
  struct One : tg::nn::Module {
    tg::Tensor p = register_parameter("p", tg::ones({1}));
  };
  One before, after;
  tg::optim::Adam first(before.parameters(), {.lr = 0.1}), second(after.parameters(), {.lr = 0.1});
  for (int i = 0; i < 3; ++i) {
    before.p.set_grad(tg::ones({1}));
    first.step();
  }
  tg::save_checkpoint(path(), before, first);
  tg::load_checkpoint(path(), after, second);
  after.p.set_grad(tg::full({1}, 0.1));
  second.step();
  EXPECT_NEAR(after.p.item(), 0.61486963, 1e-7);
}

TEST_F(Checkpoint, WhatDoesNotFitIsRefusedAndNothingIsChanged) {
  Training saved;
  saved.train(3);
  tg::save_checkpoint(path(), saved.net, saved.optimizer, saved.parts());
  const auto load_into = [&](Training& run) {
    return refused(run, [&] { tg::load_checkpoint(path(), run.net, run.optimizer, run.parts()); });
  };
  Training wider(9);
  wider.train(2);
  const std::string shapes = load_into(wider);
  for (const char* part : {"run.safetensors", "model: ", "in.weight", "nothing was changed"})
    expect_contains(shapes, part);

  Training same;
  same.train(1);
  const std::string parts =
      refused(same, [&] { tg::load_checkpoint(path(), same.net, same.optimizer, {.schedule = same.schedule}); });
  expect_contains(parts, "it has model optimizer schedule ema data and was to be loaded into model optimizer schedule");

  // The model fits, what comes behind it does not: the model must get its values back.
  Training grouped(8, 2);
  grouped.train(2);
  expect_contains(load_into(grouped), "optimizer: ");
  tg::optim::Ema other(tg::Tensors{tg::ones({2})});
  const std::string averages = refused(same, [&] {
    tg::load_checkpoint(path(), same.net, same.optimizer, {.schedule = same.schedule, .ema = other, .data = same.rows});
  });
  expect_contains(averages, "ema: ");
}

TEST_F(Checkpoint, DamagedAndForeignFilesAreRefused) {
  Training run;
  run.train(2);
  const auto error = [&] {
    return refused(run, [&] { tg::load_checkpoint(path(), run.net, run.optimizer, run.parts()); });
  };
  expect_contains(error(), "run.safetensors");  // missing
  tg::save_safetensors(path(), run.net.state_dict());
  expect_contains(error(), "must be a checkpoint");
  tg::save_checkpoint(path(), run.net, run.optimizer, run.parts());
  tg::AnnotatedStateDict file = tg::load_annotated_safetensors(path());
  file.entries.set("stray", tg::ones({1}));
  tg::save_safetensors(path(), file.entries, file.metadata);
  expect_contains(error(), "1 of ");
  fs::resize_file(path(), fs::file_size(path()) - 5);
  expect_contains(error(), "damaged");
}

TEST_F(Checkpoint, ALoaderGoesOnInTheMidstOfAnEpoch) {
  const auto loader = [] {
    return std::make_unique<tg::data::DataLoader>(tg::data::TensorDataset({tg::arange(20)}),
                                                  tg::data::LoaderOptions{.batch_size = 3, .shuffle = true, .seed = 4});
  };
  Training run;
  const auto before = loader(), after = loader();
  for (int i = 0; i < 9; ++i) before->next();
  tg::save_checkpoint(path(), run.net, run.optimizer, {.data = *before});
  after->next();
  tg::load_checkpoint(path(), run.net, run.optimizer, {.data = *after});
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(tg::equal(before->next()[0], after->next()[0])) << i;
}

TEST_F(Checkpoint, PartsOfYourOwnHaveNamesOfTheirOwn) {
  Training run;
  Rows more{7}, loaded{};
  tg::save_checkpoint(path(), run.net, run.optimizer, {.more = {{"rows", more}}});
  tg::load_checkpoint(path(), run.net, run.optimizer, {.more = {{"rows", loaded}}});
  EXPECT_EQ(loaded.next, 7);
  for (const char* name : {"", "a.b", "a b", "model", "optimizer", "extra", "tapegrad"})
    EXPECT_THROW(tg::save_checkpoint(path(), run.net, run.optimizer, {.more = {{name, more}}}), tg::ValueError) << name;
}

TEST_F(Checkpoint, ASaveThatFailsLeavesTheOldFileAndNothingBeside) {
  Training run;
  tg::save_checkpoint(path(), run.net, run.optimizer);
  const auto limited = [&] {
    // In a process of its own: files of at most 100 bytes, as if the disk were full.
    const rlimit limit{100, 100};
    ::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(2);
    try {
      run.train(1);
      tg::save_checkpoint(path(), run.net, run.optimizer);
    } catch (const tg::FileError& error) {
      std::_Exit(std::string(error.what()).find("run.safetensors") == std::string::npos);
    }
    std::_Exit(3);
  };
  tg::set_num_threads(1);
  EXPECT_EXIT(limited(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(files(), 1u);
  EXPECT_NO_THROW(tg::load_checkpoint(path(), run.net, run.optimizer));
}

TEST_F(Checkpoint, WhatAKilledSaveLeftIsRemovedByTheNextOneAndALivingOnesIsNot) {
  std::ofstream(path("run.safetensors.tmp-1-0")) << "half a file";
  std::ofstream(path("other.safetensors.tmp-1-0")) << "of another file";
  const int living = ::open(path("run.safetensors.tmp-1-1").c_str(), O_WRONLY | O_CREAT, 0666);
  ASSERT_EQ(::flock(living, LOCK_EX), 0);
  std::ofstream(path("run.safetensors.tmp-old")) << "the user's own";
  Training run;
  tg::save_checkpoint(path(), run.net, run.optimizer);
  EXPECT_FALSE(fs::exists(path("run.safetensors.tmp-1-0")));
  EXPECT_TRUE(fs::exists(path("other.safetensors.tmp-1-0")));
  EXPECT_TRUE(fs::exists(path("run.safetensors.tmp-1-1")));
  ::close(living);
  tg::save_checkpoint(path(), run.net, run.optimizer);
  EXPECT_FALSE(fs::exists(path("run.safetensors.tmp-1-1")));
  EXPECT_TRUE(fs::exists(path("run.safetensors.tmp-old")));
}

TEST_F(Checkpoint, ManyWritersOfOneFileLeaveItWhole) {
  std::vector<pid_t> writers;
  for (char c = 'a'; c < 'e'; ++c) {
    writers.push_back(::fork());
    ASSERT_GE(writers.back(), 0);
    if (writers.back() > 0) continue;
    const std::string text(10'000, c);
    const std::span<const std::byte> piece = std::as_bytes(std::span(text));
    try {
      for (int i = 0; i < 25; ++i) tg::core::write_file_atomically("test", path("one"), std::span(&piece, 1));
    } catch (const tg::Error&) {
      std::_Exit(1);
    }
    std::_Exit(0);
  }
  for (const pid_t writer : writers) {
    int status = 0;
    ::waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::ifstream file(path("one"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, std::string(10'000, text.at(0)));
  EXPECT_EQ(files(), 1u);
}

}  // namespace
