// What optimizers, schedules and averages remember: saved, loaded, and gone on with to the last bit.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tg = tapegrad;
namespace optim = tapegrad::optim;

namespace {

using Make = std::function<std::unique_ptr<optim::Optimizer>(const tg::Tensors&)>;

tg::Tensors parameters() {
  tg::manual_seed(3);
  return {tg::randn({4, 6}).requires_grad_(), tg::randn({6}).requires_grad_(), tg::randn({2, 2}).requires_grad_()};
}

void set_gradients(const tg::Tensors& list, int step) {
  tg::manual_seed(static_cast<std::uint64_t>(step));
  for (const tg::Tensor& p : list) p.set_grad(tg::randn(p.shape(), p.dtype()));
  if (step < 3) list[2].set_grad({});  // begins later
}

void run(optim::Optimizer& optimizer, const tg::Tensors& list, int from, int to) {
  for (int step = from; step < to; ++step) {
    set_gradients(list, step);
    optimizer.step();
  }
}

template <class O, class Options>
Make maker(const Options& options) {
  return [options](const tg::Tensors& p) {
    std::vector<optim::ParamGroup> groups = {{.parameters = {p[0], p[2]}}, {.parameters = {p[1]}, .lr = 0.07}};
    if (std::is_same_v<O, optim::Muon>) groups[1].use_muon = false;
    return std::make_unique<O>(groups, options);
  };
}

std::vector<Make> all_kinds() {
  return {maker<optim::SGD>(optim::SGDOptions{}),
          maker<optim::SGD>(optim::SGDOptions{.momentum = 0.9, .nesterov = true}),
          maker<optim::Adam>(optim::AdamOptions{.lr = 0.1, .amsgrad = true}),
          maker<optim::AdamW>(optim::AdamWOptions{.lr = 0.1}),
          maker<optim::RMSprop>(optim::RMSpropOptions{.momentum = 0.5, .centered = true}),
          maker<optim::Lion>(optim::LionOptions{.weight_decay = 0.1}),
          maker<optim::Muon>(optim::MuonOptions{.weight_decay = 0.1})};
}

::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

}  // namespace

TEST(OptimizerStateTest, GoesOnFromAFileToTheLastBit) {
  const std::string path = (std::filesystem::temp_directory_path() / "tapegrad-optimizer.safetensors").string();
  for (const Make& make : all_kinds()) {
    const tg::Tensors whole = parameters(), resumed = parameters();
    const auto first = make(whole);
    run(*first, whole, 0, 5);
    first->set_lr(0.03, 1);
    tg::save_safetensors(path, first->state_dict());
    const auto second = make(resumed);
    {
      tg::NoGradGuard no_grad;
      for (std::size_t i = 0; i < whole.size(); ++i) tg::core::copy_into(resumed[i].mutable_array(), whole[i].array());
    }
    second->load_state_dict(tg::load_safetensors(path));
    EXPECT_EQ(second->lr(1), 0.03);
    run(*first, whole, 5, 10);
    run(*second, resumed, 5, 10);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(tg::equal(whole[i].detach(), resumed[i].detach())) << i;
  }
  std::filesystem::remove(path);
}

TEST(OptimizerStateTest, AdamWithoutItsStateIsAnother) {
  const auto last = [](bool keep) {
    const tg::Tensor p = tg::ones({1}, tg::float64).requires_grad_();
    auto optimizer = std::make_unique<optim::Adam>(tg::Tensors{p}, optim::AdamOptions{.lr = 0.1});
    for (const double gradient : {1.0, 1.0, 1.0, 0.1}) {
      if (gradient < 1) {
        const tg::StateDict state = optimizer->state_dict();
        optimizer = std::make_unique<optim::Adam>(tg::Tensors{p}, optim::AdamOptions{.lr = 0.1});
        if (keep) optimizer->load_state_dict(state);
      }
      p.set_grad(tg::full({1}, gradient, tg::float64));
      optimizer->step();
    }
    return p.item();
  };
  EXPECT_NEAR(last(true), 0.61486963, 1e-8);
  EXPECT_NEAR(last(false), 0.60000001, 1e-8);
}

TEST(OptimizerStateTest, NamesArePyTorchs) {
  const tg::Tensors list = parameters();
  optim::AdamW optimizer(list);
  EXPECT_FALSE(optimizer.state_dict().contains("state.0.step"));
  set_gradients(list, 0);
  optimizer.step();
  const tg::StateDict state = optimizer.state_dict();
  for (const char* name : {"groups.0.lr", "groups.0.betas", "groups.0.eps", "groups.0.weight_decay", "groups.0.amsgrad",
                           "groups.0.maximize", "groups.0.parameters", "state.0.step", "state.0.exp_avg",
                           "state.0.exp_avg_sq", "state.1.exp_avg"})
    EXPECT_TRUE(state.contains(name)) << name;
  EXPECT_EQ(state.size(), 13u);  // the third parameter had no gradient
  EXPECT_EQ(state.at("state.1.step").item(), 1);
}

TEST(OptimizerStateTest, OneErrorListsEveryFaultAndNothingChanges) {
  const tg::Tensors list = parameters();
  optim::AdamW optimizer(list, {.lr = 0.5});
  run(optimizer, list, 0, 4);
  const tg::StateDict before = optimizer.state_dict();
  const tg::Tensor moments = before.at("state.0.exp_avg").clone();
  tg::StateDict entries = before;
  entries.set("groups.0.lr", tg::tensor(0.25, tg::float64));
  entries.set("state.0.exp_avg", tg::zeros({2, 2}));
  entries.set("groups.0.betas", tg::tensor({1, 2}));
  entries.set("groups.0.parameters", tg::tensor(7));
  entries.set("state.9.step", tg::tensor(1));
  entries.erase("state.1.exp_avg_sq");
  entries.erase("groups.0.eps");
  const std::string text = error_of<tg::ValueError>([&] { optimizer.load_state_dict(entries); });
  for (const char* part :
       {"AdamW::load_state_dict", "state.0.exp_avg must be float32 [4, 6], got float32 [2, 2]",
        "groups.0.betas must be", "groups.0.parameters must be 3, got 7", "missing: groups.0.eps, state.1.exp_avg_sq",
        "unexpected: state.9.step", "nothing was loaded"})
    EXPECT_TRUE(has(text, part));
  EXPECT_EQ(optimizer.lr(), 0.5);
  EXPECT_TRUE(tg::equal(optimizer.state_dict().at("state.0.exp_avg"), moments));
}

TEST(OptimizerStateTest, SettingsOutOfRangeAreRefused) {
  const tg::Tensors list = parameters();
  optim::SGD optimizer(list, {.lr = 0.5});
  const auto with = [&](const char* name, const tg::Tensor& value) {
    tg::StateDict entries = optimizer.state_dict();
    entries.set(name, value);
    return error_of<tg::ValueError>([&] { optimizer.load_state_dict(entries); });
  };
  EXPECT_TRUE(has(with("groups.0.lr", tg::tensor(std::nan(""), tg::float64)), "lr must be finite"));
  EXPECT_TRUE(has(with("groups.0.nesterov", tg::tensor(true)), "nesterov needs momentum"));
  EXPECT_EQ(optimizer.lr(), 0.5);
  EXPECT_FALSE(*optimizer.groups()[0].nesterov);
}

TEST(OptimizerStateTest, MuonsGroupsStayWhatTheyAre) {
  const tg::Tensor p = tg::ones({2, 2}).requires_grad_();
  optim::Muon optimizer({{.parameters = {p}}});
  for (const auto& [name, value] : {tg::NamedTensor{"groups.0.use_muon", tg::tensor(false)},
                                    {"groups.0.adjust_lr", tg::tensor(7)},
                                    {"groups.0.ns_steps", tg::tensor(-1)}}) {
    tg::StateDict entries = optimizer.state_dict();
    entries.set(name, value);
    EXPECT_THROW(optimizer.load_state_dict(entries), tg::ValueError) << name;
  }
  EXPECT_TRUE(*optimizer.groups()[0].use_muon);
}

TEST(OptimizerStateTest, AStateOfAnotherOptimizerIsRefused) {
  const tg::Tensors list = parameters();
  optim::Adam adam(list);
  run(adam, list, 0, 1);
  optim::RMSprop other(list);
  const std::string text = error_of<tg::ValueError>([&] { other.load_state_dict(adam.state_dict()); });
  EXPECT_TRUE(has(text, "missing: groups.0.momentum"));
  EXPECT_TRUE(has(text, "state.0.exp_avg_sq"));
  EXPECT_NE(error_of<tg::ValueError>([&] { other.load_state_dict({}); }), "nothing was thrown");
}

TEST(ScheduleStateTest, GoesOnWithBasesAndSteps) {
  const tg::Tensor a = tg::ones({1}), b = tg::ones({1});
  const auto groups = [&] {
    return std::vector<optim::ParamGroup>{{.parameters = {a}, .lr = 0.3}, {.parameters = {b}, .lr = 0.1}};
  };
  optim::SGD first(groups()), second({{.parameters = {a}, .lr = 5.0}, {.parameters = {b}, .lr = 5.0}});
  optim::CosineSchedule whole(first, {.total_steps = 20, .warmup_steps = 4});
  for (int step = 0; step < 9; ++step) whole.step();
  optim::CosineSchedule resumed(second, {.total_steps = 20, .warmup_steps = 4});
  resumed.load_state_dict(whole.state_dict());
  EXPECT_EQ(resumed.steps(), 9);
  for (int step = 0; step < 15; ++step) {
    EXPECT_EQ(first.lr(0), second.lr(0));
    EXPECT_EQ(first.lr(1), second.lr(1));
    whole.step();
    resumed.step();
  }
  tg::StateDict entries = whole.state_dict();
  entries.set("base_lrs", tg::tensor({0.1, -1.0}, tg::float64));
  entries.set("more", tg::tensor(1));
  const double lr = second.lr();
  const std::string text = error_of<tg::ValueError>([&] { resumed.load_state_dict(entries); });
  EXPECT_TRUE(has(text, "CosineSchedule::load_state_dict"));
  EXPECT_TRUE(has(text, "base_lrs must be finite and not negative, got -1; unexpected: more"));
  EXPECT_EQ(second.lr(), lr);
  EXPECT_EQ(resumed.steps(), 24);
}

TEST(ScheduleStateTest, KeepsARateThatWasSetByHand) {
  const tg::Tensor a = tg::ones({1}), b = tg::ones({1});
  const auto run = [&](auto&& use) {
    optim::SGD optimizer({a}, {.lr = 0.1});
    optim::CosineSchedule schedule(optimizer, {.total_steps = 10});
    optimizer.add_param_group({.parameters = {b}, .lr = 0.5});  // seen by the schedule at its next step
    use(optimizer, schedule);
  };
  run([&](optim::SGD& first, optim::CosineSchedule& whole) {
    whole.step();
    first.set_lr(0.033, 0);
    run([&](optim::SGD& second, optim::CosineSchedule& resumed) {
      second.load_state_dict(first.state_dict());
      resumed.load_state_dict(whole.state_dict());
      EXPECT_EQ(second.lr(0), 0.033);
      EXPECT_EQ(second.lr(1), first.lr(1));
      whole.step();
      resumed.step();
      EXPECT_EQ(second.lr(0), first.lr(0));
      EXPECT_EQ(second.lr(1), first.lr(1));
      EXPECT_NE(second.lr(0), 0.033);
    });
  });
}

TEST(ScheduleStateTest, PlateauGoesOn) {
  const tg::Tensor a = tg::ones({1});
  optim::SGD first({a}, {.lr = 1.0}), second({a}, {.lr = 1.0});
  optim::ReduceLROnPlateau whole(first, {.patience = 1}), resumed(second, {.patience = 1});
  for (const double value : {2.0, 1.0, 1.5}) whole.step(value);
  resumed.load_state_dict(whole.state_dict());
  EXPECT_EQ(resumed.best(), 1.0);
  whole.step(1.2);
  resumed.step(1.2);
  EXPECT_EQ(first.lr(), 0.1);
  EXPECT_EQ(second.lr(), 0.1);
  EXPECT_TRUE(has(error_of<tg::ValueError>([&] { resumed.load_state_dict({}); }),
                  "missing: best, num_bad_epochs, cooldown_counter"));
  tg::StateDict entries = whole.state_dict();
  entries.set("best", tg::tensor(std::nan(""), tg::float64));
  entries.set("num_bad_epochs", tg::tensor(-1));
  const std::string text = error_of<tg::ValueError>([&] { resumed.load_state_dict(entries); });
  EXPECT_TRUE(has(text, "best must be a number that step() can reach, got nan")) << text;
  EXPECT_TRUE(has(text, "num_bad_epochs must be a number that step() can reach, got -1")) << text;
}
