// The optional training loop and its parts: weights of micro-batches, resuming, what is kept, what stops it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tg = tapegrad;
namespace data = tapegrad::data;
namespace fs = std::filesystem;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// One token with a loss of 4, three with 0: the mean is 1, not the mean of means 2.
TEST(AccumulateGradients, TokensWeighAlikeInAllMicroBatches) {
  tg::Tensor p = tg::ones({1}).requires_grad_();
  p.set_grad(tg::full({1}, 99));  // is replaced
  int call = 0;
  const auto loss = [&]() -> tg::TokenLoss {
    const std::vector<float> losses = call++ == 0 ? std::vector<float>{4} : std::vector<float>{0, 0, 0};
    const auto tokens = static_cast<std::int64_t>(losses.size());
    return {tg::sum(p * tg::from_vector(losses, {tokens})), tokens};
  };
  const tg::AccumulatedLoss total = tg::accumulate_gradients({p}, 2, loss);
  EXPECT_EQ(total.mean, 1.0);
  EXPECT_EQ(total.tokens, 4);
  EXPECT_EQ(p.grad().item(), 1.0);
}

TEST(AccumulateGradients, IsTheGradientOfTheJointBatch) {
  tg::manual_seed(3);
  tg::nn::Linear net(4, 5);
  net.to(tg::float64);
  const tg::Tensor x = tg::randn({7, 4}, tg::float64);
  const tg::Tensor targets = tg::tensor({1, -100, 4, 0, -100, 2, 3});
  net.parameters()[0].set_grad({});
  tg::nn::cross_entropy(net(x), targets).backward();
  const tg::Tensors expected{net.weight().grad(), net.bias().grad()};
  std::int64_t next = 0;
  const std::int64_t begins[] = {0, 2, 5, 7}, kept[] = {1, 2, 2};
  tg::accumulate_gradients(net.parameters(), 3, [&]() -> tg::TokenLoss {
    const std::int64_t begin = begins[next], end = begins[next + 1];
    return {tg::nn::cross_entropy(net(x.slice(0, begin, end)), targets.slice(0, begin, end),
                                  {.reduction = tg::nn::Reduction::sum}),
            kept[next++]};
  });
  EXPECT_TRUE(tg::allclose(net.weight().grad(), expected[0], 1e-12, 1e-12));
  EXPECT_TRUE(tg::allclose(net.bias().grad(), expected[1], 1e-12, 1e-12));
}

TEST(AccumulateGradients, NoTokensGiveNoGradient) {
  tg::Tensor p = tg::ones({1}).requires_grad_();
  const auto none = [&] { return tg::TokenLoss{tg::sum(p * 0.0), 0}; };
  EXPECT_EQ(tg::accumulate_gradients({p}, 1, none).mean, 0.0);
  EXPECT_EQ(p.grad().item(), 0.0);
  EXPECT_THROW(tg::accumulate_gradients({p}, 0, none), tg::ValueError);
  EXPECT_THROW(tg::accumulate_gradients({p}, 1, [&] { return tg::TokenLoss{tg::sum(p), -1}; }), tg::ValueError);
}

class Folder : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string content(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename().string());
    return names;
  }
  std::string folder_ = fs::temp_directory_path() / ("tapegrad-trainer-" + std::to_string(::getpid()));
};

using MetricsFile = Folder;
TEST_F(MetricsFile, TableAndLines) {
  fs::create_directories(folder_);
  tg::Metrics metrics(path("m"));
  metrics.write(1, {{"loss", 0.5}, {"lr", 1e-3}});
  metrics.write(20, {{"loss", -kNan}, {"lr", -std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(content("m.csv"), "step,loss,lr\n1,0.5,0.001\n20,nan,-inf\n");
  EXPECT_EQ(content("m.jsonl"), "{\"step\":1,\"loss\":0.5,\"lr\":0.001}\n{\"step\":20,\"loss\":null,\"lr\":null}\n");
  expect_contains(error_of([&] { metrics.write(21, {{"loss", 1}}); }), "step,loss,lr; got step,loss");
  EXPECT_THROW(metrics.write(21, {{"a,b", 1}}), tg::ValueError);
  EXPECT_THROW(tg::Metrics("/missing-folder/m").write(1, {}), tg::FileError);
  EXPECT_THROW(tg::Metrics(path(std::string(300, 'm')), 1), tg::FileError);
}

TEST_F(MetricsFile, AResumedRunKeepsTheRowsBefore) {
  fs::create_directories(folder_);
  {
    tg::Metrics metrics(path("m"));
    for (std::int64_t step : {5, 10, 15}) metrics.write(step, {{"loss", 0.25 * static_cast<double>(step)}});
  }
  std::ofstream(path("m.csv"), std::ios::app) << "2";  // cut off in the midst
  {
    tg::Metrics metrics(path("m"), 10);
    EXPECT_THROW(metrics.write(12, {{"other", 1}}), tg::ValueError);
    metrics.write(12, {{"loss", 1}});
  }
  EXPECT_EQ(content("m.csv"), "step,loss\n5,1.25\n10,2.5\n12,1\n");
  EXPECT_EQ(content("m.jsonl"), "{\"step\":5,\"loss\":1.25}\n{\"step\":10,\"loss\":2.5}\n{\"step\":12,\"loss\":1}\n");
  tg::Metrics anew(path("m"));
  EXPECT_NE(content("m.csv").find("2.5"), std::string::npos);  // until the first row
  anew.write(1, {{"loss", 3}});
  EXPECT_EQ(content("m.csv"), "step,loss\n1,3\n");
}

/// All that a run consists of.
struct Training {
  Training() : loader(data::TensorDataset({x, tg::sum(x, {1}, true)}), {.batch_size = 6, .shuffle = true, .seed = 2}) {}
  tg::Tensor x = tg::reshape(tg::linspace(-1, 1, 60), {20, 3});
  struct Net : tg::nn::Module {
    tg::nn::Linear in = register_module("in", tg::nn::Linear(3, 8));
    tg::nn::Dropout drop = register_module("drop", tg::nn::Dropout(0.2));
    tg::nn::Linear out = register_module("out", tg::nn::Linear(8, 1));
    tg::Tensor operator()(const tg::Tensor& x) const { return out(drop(tg::nn::gelu(in(x)))); }
  } net;
  tg::optim::AdamW optimizer{net.parameters(), {.lr = 1e-2}};
  tg::optim::CosineSchedule schedule{optimizer, {.total_steps = 20}};
  data::DataLoader loader;
  std::vector<double> evaluations;

  tg::TrainerOptions options(std::int64_t steps, const std::string& folder = "") {
    return {
        .steps = steps,
        .loss = [this]() -> tg::TokenLoss {
          const tg::Tensors batch = loader.next();
          return {tg::nn::mse_loss(net(batch[0]), batch[1], {.reduction = tg::nn::Reduction::sum}), batch[0].size(0)};
        },
        .accumulate = 2,
        .clip_norm = 1.0,
        .after_step = [this] { schedule.step(); },
        .evaluate =
            [this] {
              EXPECT_FALSE(net.is_training());
              evaluations.push_back(tg::nn::mse_loss(net(x), tg::sum(x, {1}, true)).item());
              return evaluations.back();
            },
        .evaluate_every = 4,
        .folder = folder,
        .parts = {.schedule = schedule, .data = loader},
        .resume = !folder.empty(),
        .progress = false};
  }
};

using Trainer = Folder;
TEST_F(Trainer, TrainsAndKeepsTheLastAndTheBest) {
  tg::manual_seed(1);
  Training run;
  const tg::TrainingResult result = tg::train(run.net, run.optimizer, run.options(20, folder_));
  EXPECT_EQ(result.steps, 20);
  EXPECT_TRUE(run.net.is_training());
  EXPECT_LT(run.evaluations.back(), run.evaluations.front());
  EXPECT_EQ(result.evaluation, run.evaluations.back());
  EXPECT_EQ(result.best, *std::min_element(run.evaluations.begin(), run.evaluations.end()));
  EXPECT_EQ(names(), (std::set<std::string>{"best.safetensors", "metrics.csv", "metrics.jsonl", "step-16.safetensors",
                                            "step-20.safetensors"}));
  EXPECT_EQ(tg::read_checkpoint_note(path("best.safetensors")).step, result.best_step);
  const std::string table = content("metrics.csv");
  EXPECT_TRUE(table.starts_with("step,train_loss,validation_loss,lr,gradient_norm,tokens_per_second\n4,")) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 6);
}

/// Rows without the last column, which is a time.
std::string without_rate(const std::string& table) {
  std::string rows;
  for (std::size_t begin = 0, end; (end = table.find('\n', begin)) != table.npos; begin = end + 1)
    rows += table.substr(begin, table.rfind(',', end) - begin) + "\n";
  return rows;
}

TEST_F(Trainer, AResumedRunEqualsOneThatWasNotStopped) {
  tg::manual_seed(1);
  Training whole;
  const tg::TrainingResult expected = tg::train(whole.net, whole.optimizer, whole.options(12, folder_));
  const std::string table = without_rate(content("metrics.csv"));
  for (int stop_after = 1; stop_after < 12; ++stop_after) {
    fs::remove_all(folder_);
    tg::manual_seed(1);
    Training first;
    tg::TrainerOptions options = first.options(12, folder_);
    options.stop = [&, steps = 0]() mutable { return ++steps == stop_after; };
    EXPECT_EQ(tg::train(first.net, first.optimizer, options).steps, stop_after);
    tg::manual_seed(50);
    Training second;
    const tg::TrainingResult result = tg::train(second.net, second.optimizer, second.options(12, folder_));
    EXPECT_EQ(result.evaluation, expected.evaluation);
    EXPECT_EQ(result.best_step, expected.best_step);
    EXPECT_EQ(without_rate(content("metrics.csv")), table) << stop_after;
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(tg::equal(second.net.parameters()[i], whole.net.parameters()[i]));
    EXPECT_EQ(tg::train(second.net, second.optimizer, second.options(12, folder_)).steps, 12);  // nothing is left to do
  }
}

TEST_F(Trainer, OtherColumnsThanBeforeAreRefusedBeforeAnythingChanges) {
  tg::manual_seed(1);
  Training first;
  tg::train(first.net, first.optimizer, first.options(4, folder_));
  Training second;
  const tg::Tensor before = second.net.in.weight().detach().clone();
  tg::TrainerOptions options = second.options(8, folder_);
  options.evaluate = nullptr;
  int losses = 0;
  options.loss = [&, loss = options.loss] {
    ++losses;
    return loss();
  };
  const std::string error = error_of([&] { tg::train(second.net, second.optimizer, options); });
  for (const char* part : {"metrics.csv'", "step,train_loss,validation_loss,lr,gradient_norm,tokens_per_second",
                           "got step,train_loss,lr,gradient_norm,tokens_per_second;"})
    expect_contains(error, part);
  EXPECT_EQ(losses, 0);
  EXPECT_TRUE(tg::equal(second.net.in.weight(), before));
}

TEST_F(Trainer, StopsWhenEvaluationsGetNoBetter) {
  Training run;
  tg::TrainerOptions options = run.options(100, folder_);
  int calls = 0;
  options.evaluate = [&] { return std::vector<double>{3, 2, 2, 2.5, 1}.at(static_cast<std::size_t>(calls++)); };
  options.patience = 2;
  const tg::TrainingResult result = tg::train(run.net, run.optimizer, options);
  EXPECT_EQ(result.steps, 16);
  EXPECT_EQ(result.best, 2);
  EXPECT_EQ(result.best_step, 8);
  EXPECT_EQ(tg::read_checkpoint_note(path("best.safetensors")).step, 8);
  EXPECT_EQ(tg::train(run.net, run.optimizer, options).steps, 16);  // resumed, it stays stopped
}

TEST_F(Trainer, WhatIsNotFiniteStopsItAndCheckpointsStay) {
  tg::manual_seed(1);
  Training run;
  tg::train(run.net, run.optimizer, run.options(8, folder_));
  const std::string best = content("best.safetensors"), last = content("step-8.safetensors"),
                    table = content("metrics.csv");
  const auto expect_stopped = [&](const tg::TrainerOptions& options, const std::vector<const char*>& parts,
                                  bool same_rows = true) {
    const std::string text = error_of([&] { tg::train(run.net, run.optimizer, options); });
    for (const char* part : parts) expect_contains(text, part);
    EXPECT_EQ(content("best.safetensors"), best);
    EXPECT_EQ(content("step-8.safetensors"), last);
    EXPECT_EQ(content("metrics.csv") == table, same_rows);
  };
  tg::TrainerOptions options = run.options(20, folder_);
  const auto loss = options.loss;
  options.loss = [&] { return tg::TokenLoss{loss().sum * -kNan, 6}; };
  expect_stopped(options, {"step 9", "the loss", "got nan", "in.weight (its gradient is not finite)"});
  options.loss = [&]() -> tg::TokenLoss {  // the loss is finite, its gradient isn't
    return {loss().sum + tg::sum(tg::sqrt(run.net.out.bias() - run.net.out.bias().detach())), 6};
  };
  expect_stopped(options, {"step 9", "norm of the gradients", "out.bias (its gradient is not finite)"});
  options.loss = loss;
  options.evaluate = [] { return kNan; };
  options.evaluate_every = 1;
  expect_stopped(options, {"step 9", "the evaluation", "no parameter is at fault"});
  options.evaluate = nullptr;
  options.evaluate = [] { return 1.0; };
  options.after_step = nullptr;
  options.loss = [&] {
    run.optimizer.set_lr(1e39);  // parameters overflow; the loss before and its gradients are finite
    return loss();
  };
  expect_stopped(options, {"step 9", "the update", "(its value is not finite)"}, false);
  Training other;
  EXPECT_EQ(tg::first_not_finite(other.net), "");
  const tg::NoGradGuard no_grad;
  other.net.in.bias().mutable_array().data<float>()[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(tg::first_not_finite(other.net), "in.bias (its value is not finite)");
}

TEST_F(Trainer, PartsStayInTheirModesWhenItHasEvaluated) {
  Training run;
  run.net.drop.eval();
  tg::train(run.net, run.optimizer, run.options(4));
  EXPECT_TRUE(run.net.is_training());
  EXPECT_FALSE(run.net.drop.is_training());
}

/// Its own files would be the first to go, and a later start would go on from the other run.
TEST_F(Trainer, ANewRunDoesNotMixWithAnotherOnesFiles) {
  Training first;
  tg::train(first.net, first.optimizer, first.options(20, folder_));
  const std::set<std::string> before = names();
  Training second;
  tg::TrainerOptions options = second.options(8, folder_);
  options.resume = false;
  const std::string error = error_of([&] { tg::train(second.net, second.optimizer, options); });
  for (const char* part : {"step-20.safetensors", "another folder", "resume"}) expect_contains(error, part);
  EXPECT_EQ(names(), before);
  EXPECT_TRUE(second.evaluations.empty());
}

TEST_F(Trainer, OptionsAreChecked) {
  Training run;
  using Change = std::function<void(tg::TrainerOptions&)>;
  for (const Change& change :
       {Change([](auto& o) { o.loss = nullptr; }), Change([](auto& o) { o.steps = -1; }),
        Change([](auto& o) { o.accumulate = 0; }), Change([](auto& o) { o.evaluate_every = 0; }),
        Change([](auto& o) { o.clip_norm = -1; }), Change([](auto& o) { o.keep_last = 0; }),
        Change([](auto& o) { o.patience = 1, o.evaluate = nullptr; }), Change([](auto& o) { o.resume = true; })}) {
    tg::TrainerOptions options = run.options(3);
    change(options);
    EXPECT_THROW(tg::train(run.net, run.optimizer, options), tg::ValueError);
  }
  tg::TrainerOptions options = run.options(3);
  options.patience = -2;
  expect_contains(error_of([&] { tg::train(run.net, run.optimizer, options); }),
                  "train: patience must be at least 0; got -2");
  options.keep_last = options.patience = 0;
  expect_contains(error_of([&] { tg::train(run.net, run.optimizer, options); }),
                  "train: keep_last must be at least 1; got 0");
  EXPECT_EQ(tg::train(run.net, run.optimizer, run.options(0)).steps, 0);
  std::ofstream(folder_) << "a file";
  expect_contains(error_of([&] { tg::train(run.net, run.optimizer, run.options(3, folder_)); }), folder_);
}

}  // namespace
