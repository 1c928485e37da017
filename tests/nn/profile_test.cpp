// What a profile says of modules.
#include <gtest/gtest.h>

#include <map>
#include <tapegrad/tapegrad.hpp>

namespace tapegrad {
namespace {

using autograd::profile;
using autograd::ProfileRow;

struct Block : nn::Module {
  nn::Linear in = register_module("in", nn::Linear(16, 32));
  nn::Linear out = register_module("out", nn::Linear(32, 16));
  Tensor operator()(const Tensor& x) const {
    const auto here = scope();
    return out(tanh(in(x)));
  }
};

struct Model : nn::Module {
  nn::ModuleList<Block> blocks = register_module("blocks", nn::ModuleList<Block>({Block(), Block()}));
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(16));
  Tensor operator()(Tensor x) {
    const auto here = scope();
    for (Block& block : blocks) x = block(x);
    return norm(x);
  }
};

class ProfileOfModules : public testing::Test {
 protected:
  ProfileOfModules() {
    profile profile;
    for (int step = 0; step < 3; ++step) {
      const Tensor y = model_(x_);
      square(y).sum().backward();  // outside of every scope
    }
    for (const ProfileRow& row : profile.modules()) rows_.emplace(row.name, row);
    for (const ProfileRow& row : profile.operations()) operations_.emplace(row.name, row);
  }

  Model model_;
  Tensor x_ = randn({8, 16});
  std::map<std::string, ProfileRow> rows_, operations_;
};

TEST_F(ProfileOfModules, AreNamedByPathAndCountTheirCalls) {
  std::map<std::string, std::int64_t> calls;
  for (const auto& [name, row] : rows_) calls[name] = row.calls;
  const std::map<std::string, std::int64_t> expected = {
      {"(all)", 3},        {"(other)", 0},  {"blocks", 0},      {"blocks.0", 3},     {"blocks.0.in", 3},
      {"blocks.0.out", 3}, {"blocks.1", 3}, {"blocks.1.in", 3}, {"blocks.1.out", 3}, {"norm", 3}};
  EXPECT_EQ(calls, expected);
}

TEST_F(ProfileOfModules, TimeGoesToTheModuleOfTheForwardPassAndToItsParents) {
  for (const auto& [name, row] : rows_) {
    if (name == "(other)") continue;
    EXPECT_GT(row.forward_ms, 0) << name;
    EXPECT_GT(row.backward_ms, 0) << name;
  }
  const auto near = [](double a, double b) { return std::abs(a - b) < 1e-9; };
  const auto at = [&](const char* name) { return rows_.at(name); };
  EXPECT_TRUE(near(at("blocks").backward_ms, at("blocks.0").backward_ms + at("blocks.1").backward_ms));
  EXPECT_TRUE(near(at("norm").backward_ms, operations_.at("layer_norm").backward_ms));
  EXPECT_TRUE(near(at("norm").forward_ms, operations_.at("layer_norm").forward_ms));
  EXPECT_TRUE(
      near(at("blocks").backward_ms, operations_.at("linear").backward_ms + operations_.at("tanh").backward_ms));
  EXPECT_TRUE(near(at("(all)").backward_ms, at("blocks").backward_ms + at("norm").backward_ms +
                                                operations_.at("square").backward_ms +
                                                operations_.at("sum").backward_ms));
}

TEST_F(ProfileOfModules, BytesKeptGoThereToo) {
  const std::int64_t hidden = 3 * 8 * 32 * 4;  // what tanh keeps of both blocks, in three steps
  EXPECT_EQ(rows_.at("blocks.0").bytes_kept, hidden);
  EXPECT_EQ(rows_.at("blocks.0.out").bytes_kept, 0) << "tanh keeps it for longer";
  EXPECT_GT(rows_.at("norm").bytes_kept, 0);
  std::int64_t all = 0;
  for (const auto& [name, row] : operations_) all += row.bytes_kept;
  EXPECT_EQ(rows_.at("(all)").bytes_kept, all);
}

}  // namespace
}  // namespace tapegrad
