#include <gtest/gtest.h>

#include <limits>

#include <fmt/format.h>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

/// A small language model whose attention sees what `mask` allows; it has no operator().
struct Model : nn::Module {
  explicit Model(nn::AttendOptions options) : options(options) {}
  tg::Tensor forward(const tg::Tensor& ids) { return head(block(embedding(ids), options)); }

  nn::AttendOptions options;
  nn::Embedding embedding = register_module("embedding", nn::Embedding(9, 8));
  nn::TransformerBlock block = register_module("block", nn::TransformerBlock(8, 2, {.dropout = 0.4}));
  nn::Linear head = register_module("head", nn::Linear(8, 9));
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CheckCausal, PassesCausalModels) {
  const tg::Tensor ids = tg::tensor({{1, 2, 3, 4, 5}, {8, 8, 0, 0, 1}});
  Model by_flag({.is_causal = true}), by_mask({.mask = nn::create_causal_mask(5)});
  const nn::LeakReport report = nn::check_causal(by_flag, ids);
  EXPECT_TRUE(report) << report.to_string();
  EXPECT_EQ(report.changed_in_turn, 5);
  EXPECT_TRUE(has(fmt::format("{}", report), "no leak: 5 positions")) << report.to_string();
  EXPECT_TRUE(nn::check_causal(by_mask, ids));
  EXPECT_FALSE(nn::check_causal(nn::TransformerBlock(8, 2), tg::randn({2, 3, 8})));
  EXPECT_TRUE(nn::check_causal(nn::LayerNorm(4), tg::randn({2, 3, 4})));
}

TEST(CheckCausal, NamesTheFirstLeakOfAMaskThatIsOffByOne) {
  Model model({.mask = tg::tril(tg::ones({5, 5}), 1)});
  const nn::LeakReport report = nn::check_causal(model, tg::tensor({{1, 2, 3, 4, 5}}));
  EXPECT_FALSE(report);
  EXPECT_EQ(report.changed, 1);
  EXPECT_EQ(report.moved, 0);
  EXPECT_GT(report.size, 1e-3);
  EXPECT_TRUE(has(report.to_string(), "the output of position 0 depends on the input of position 1"))
      << report.to_string();
}

TEST(CheckCausal, FindsALeakFromTheLastPositionAlone) {
  const auto model = [](const tg::Tensor& x) { return x + 1e-9 * tg::pad(x.slice(1, 4, 5), {0, 0, 2, 2}); };
  const nn::LeakReport report = nn::check_causal(model, tg::randn({2, 5, 3}, tg::float64));
  EXPECT_EQ(report.changed, 4);
  EXPECT_EQ(report.moved, 2);
  EXPECT_GT(report.size, 1e-12);
  EXPECT_LT(report.size, 1e-7);
  EXPECT_TRUE(nn::check_causal(model, tg::randn({2, 5, 3}, tg::float64), 1e-7));
}

TEST(CheckCausal, FindsAMeanOverTime) {
  nn::Embedding table(5, 4);
  const auto model = [&](const tg::Tensor& ids) { return table(ids) - table(ids).mean(1, true); };
  EXPECT_FALSE(nn::check_causal(model, tg::tensor({{0, 1, 2}, {3, 4, 0}})));
  EXPECT_TRUE(nn::check_batch_independence(model, tg::tensor({{0, 1, 2}, {3, 4, 0}})));
}

TEST(CheckCausal, FindsANotANumberThatComesFromTheFuture) {
  const auto model = [](const tg::Tensor& x) { return x + tg::log(x.slice(1, 1, 2)) * 0; };  // NaN below 0
  tg::manual_seed(1);
  const nn::LeakReport report = nn::check_causal(model, tg::rand({1, 2, 8}) + 1);
  EXPECT_FALSE(report);
  EXPECT_EQ(report.size, std::numeric_limits<double>::infinity());
}

TEST(CheckBatchIndependence, PassesAndFindsItemsThatAreMixed) {
  Model model({});
  const tg::Tensor ids = tg::tensor({{1, 2, 3}, {4, 5, 6}, {7, 8, 0}});
  const nn::LeakReport report = nn::check_batch_independence(model, ids);
  EXPECT_TRUE(report) << report.to_string();
  EXPECT_TRUE(has(report.to_string(), "3 items")) << report.to_string();

  const auto batch_norm = [](const tg::Tensor& x) { return (x - x.mean(0, true)) / tg::sqrt(tg::var(x, 0, 0, true)); };
  const nn::LeakReport mixed = nn::check_batch_independence(batch_norm, tg::randn({3, 4}));
  EXPECT_FALSE(mixed);
  EXPECT_EQ(mixed.changed, 0);
  EXPECT_EQ(mixed.moved, 1);
  EXPECT_TRUE(has(mixed.to_string(), "the output of item 1 depends on the input of item 0")) << mixed.to_string();
  const auto rolled = [](const tg::Tensor& x) { return tg::roll(x, 1); };  // over all elements
  EXPECT_FALSE(nn::check_batch_independence(rolled, tg::randn({2, 4})));
}

TEST(CheckCausal, LeavesModesRandomStateAndTapeAlone) {
  Model model({.is_causal = true});
  model.block.eval();
  tg::manual_seed(4);
  const tg::RandomState before = tg::random_state();
  const std::int64_t entries = tg::memory::live_entries();
  bool training = true, records = true;
  model.head.register_forward_hook([&](const nn::Module& head, const tg::Tensor& y) {
    training = head.is_training();
    records = y.requires_grad();
  });
  EXPECT_TRUE(nn::check_causal(model, tg::tensor({{1, 2, 3}})));
  EXPECT_FALSE(training || records);
  EXPECT_TRUE(model.is_training() && model.head.is_training());
  EXPECT_FALSE(model.block.is_training());
  EXPECT_TRUE(tg::random_state() == before);
  EXPECT_EQ(tg::memory::live_entries(), entries);

  model.train();  // a callable keeps its mode: the same dropout in every call
  EXPECT_TRUE(nn::check_causal([&](const tg::Tensor& ids) { return model.forward(ids); }, tg::tensor({{1, 2, 3}})));
  EXPECT_TRUE(tg::random_state() == before);
  const auto throws = [](const tg::Tensor&) -> tg::Tensor { throw tg::ValueError("no"); };
  EXPECT_THROW((void)nn::check_causal(throws, tg::ones({1, 2, 3})), tg::ValueError);
  EXPECT_TRUE(tg::random_state() == before);
}

TEST(CheckCausal, RefusesWhatItCouldNotFindALeakIn) {
  const auto same = [](const tg::Tensor& x) { return x; };
  EXPECT_THROW((void)nn::check_causal(same, tg::randn({2, 1, 3})), tg::ShapeError);
  EXPECT_THROW((void)nn::check_causal(same, tg::randn({3})), tg::ShapeError);
  EXPECT_THROW((void)nn::check_batch_independence(same, tg::randn({1, 3})), tg::ShapeError);
  EXPECT_THROW((void)nn::check_causal(same, tg::tensor({{3, 3, 3}})), tg::ValueError);
  EXPECT_THROW((void)nn::check_causal(same, tg::ones({1, 3}, tg::boolean)), tg::DtypeError);
  const auto pooled = [](const tg::Tensor& x) { return x.mean(1); };
  EXPECT_THROW((void)nn::check_causal(pooled, tg::randn({2, 4, 3})), tg::ShapeError);
}

}  // namespace
