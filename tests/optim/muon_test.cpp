#include <gtest/gtest.h>

#include <cmath>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace optim = tapegrad::optim;

namespace {

std::vector<tg::NamedTensor> model() {
  return {{"embedding.weight", tg::ones({5, 4}).requires_grad_()},
          {"block.weight", tg::ones({4, 4}).requires_grad_()},
          {"block.bias", tg::ones({4}).requires_grad_()},
          {"convolution", tg::ones({2, 2, 2}).requires_grad_()},
          {"head", tg::ones({5, 4}).requires_grad_()}};
}

}  // namespace

TEST(MuonTest, AStepIsCloseToOrthogonal) {
  for (const auto& shape : {tg::Shape{8, 8}, tg::Shape{6, 20}, tg::Shape{20, 6}, tg::Shape{1, 5}, tg::Shape{1, 1}}) {
    tg::manual_seed(1);
    const tg::Tensor p = tg::zeros(shape, tg::float64).requires_grad_();
    optim::Muon optimizer({{.parameters = {p}}}, {.lr = 1.0, .ns_steps = shape[0] == 20 ? 8 : 5});
    p.set_grad(tg::randn(shape, tg::float64));
    optimizer.step();
    const tg::Tensor value = p.detach() / std::sqrt(std::max(1.0, double(shape[0]) / double(shape[1])));
    const bool wide = shape[0] <= shape[1];
    const tg::Tensor gram = wide ? value.matmul(value.transpose(0, 1)) : value.transpose(0, 1).matmul(value);
    for (std::int64_t i = 0; i < gram.size(0); ++i)  // singular values from 0.7 to 1.2
      EXPECT_NEAR(gram.select(0, i).select(0, i).item(), 0.95, 0.5) << shape[0];
    EXPECT_LT((gram - tg::eye(gram.size(0), tg::float64)).abs().max().item(), 0.55);
  }
}

TEST(MuonTest, SinglePrecisionIsEnough) {
  for (const auto& [rows, columns, rank] : {std::array<std::int64_t, 3>{70, 70, 70}, {64, 256, 64}, {256, 64, 5}}) {
    tg::manual_seed(5);
    const tg::Tensor gradient = tg::randn({rows, rank}, tg::float64).matmul(tg::randn({rank, columns}, tg::float64));
    const auto step = [&, shape = gradient.shape()](tg::Dtype dtype) {
      const tg::Tensor p = tg::zeros(shape, dtype).requires_grad_();
      optim::Muon optimizer({{.parameters = {p}}}, {.lr = 1.0});
      p.set_grad(gradient.to(dtype));
      optimizer.step();
      return p.detach().to(tg::float64);
    };
    const tg::Tensor wanted = step(tg::float64), got = step(tg::float32);
    EXPECT_LT(((got - wanted).pow(2).sum() / wanted.pow(2).sum()).sqrt().item(), 0.03) << rows << " " << columns;
  }
}

TEST(MuonTest, SplitsANetworksParameters) {
  const auto named = model();
  const auto groups = optim::muon_groups(named, {"embedding", "head"});
  ASSERT_EQ(groups.size(), 3u);
  ASSERT_EQ(groups[0].parameters.size(), 1u);
  EXPECT_EQ(groups[0].parameters[0].body(), named[1].tensor.body());
  EXPECT_EQ(groups[1].parameters.size(), 3u);
  EXPECT_EQ(groups[2].parameters.size(), 1u);
  EXPECT_EQ(optim::muon_groups(named)[0].parameters.size(), 3u);
  EXPECT_THROW(optim::muon_groups(named, {"embeding"}), tg::ValueError);
  EXPECT_THROW(optim::muon_groups(named, {"block.wei"}), tg::ValueError);
}

TEST(MuonTest, TheRestIsAdamWs) {
  const auto named = model(), same = model();
  optim::Muon muon(named, {.adamw = {.lr = 0.1, .weight_decay = 0.2}}, {"embedding", "head"});
  EXPECT_EQ(muon.lr(0), 0.02);
  EXPECT_EQ(muon.lr(1), 0.1);
  EXPECT_FALSE(muon.groups()[1].momentum);
  optim::AdamW adamw({same[0].tensor, same[2].tensor, same[3].tensor, same[4].tensor},
                     {.lr = 0.1, .weight_decay = 0.2});
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < named.size(); ++i) {
      named[i].tensor.set_grad(tg::randn(named[i].tensor.shape()));
      same[i].tensor.set_grad(named[i].tensor.grad());
    }
    muon.step();
    adamw.step();
  }
  for (const std::size_t i : {0, 2, 3, 4}) EXPECT_TRUE(tg::equal(named[i].tensor.detach(), same[i].tensor.detach()));
  EXPECT_FALSE(tg::equal(named[1].tensor.detach(), tg::ones({4, 4})));
}

TEST(MuonTest, ZeroAndMissingGradientsAndEmptyMatrices) {
  const tg::Tensor p = tg::ones({3, 4}).requires_grad_(), q = tg::ones({3, 2}).requires_grad_();
  const tg::Tensor empty = tg::ones({0, 4}).requires_grad_();
  optim::Muon optimizer({{.parameters = {p, q, empty}}}, {.weight_decay = 0.5});
  p.set_grad(tg::zeros({3, 4}));
  empty.set_grad(tg::zeros({0, 4}));
  optimizer.step();
  EXPECT_TRUE(tg::equal(p.detach(), tg::full({3, 4}, 0.99)));
  EXPECT_TRUE(tg::equal(q.detach(), tg::ones({3, 2})));
}

TEST(MuonTest, TheSameBitsOnAnyNumberOfThreadsAndNoNewMemory) {
  const auto run = [](int threads) {
    tg::set_num_threads(threads);
    tg::manual_seed(6);
    const tg::Tensors list = {tg::randn({300, 200}).requires_grad_(), tg::randn({100, 400}).requires_grad_(),
                              tg::randn({40000}).requires_grad_()};
    optim::Muon optimizer({{.parameters = {list[0], list[1]}}, {.parameters = {list[2]}, .use_muon = false}});
    std::int64_t allocations = 0;
    for (int step = 0; step < 4; ++step) {
      for (const tg::Tensor& p : list) p.set_grad(tg::randn(p.shape()));
      if (step == 2) allocations = tg::memory::system_allocations();
      optimizer.step();
    }
    if (threads == 1) {
      EXPECT_EQ(tg::memory::system_allocations(), allocations);
    }
    return list;
  };
  const int before = tg::num_threads();
  const tg::Tensors one = run(1), three = run(3);
  tg::set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(tg::equal(one[i].detach(), three[i].detach()));
}

TEST(MuonTest, Mistakes) {
  const tg::Tensor p = tg::ones({3, 4}).requires_grad_(), v = tg::ones({3}).requires_grad_();
  const auto make = [&](const optim::MuonOptions& options) { optim::Muon({{.parameters = {p}}}, options); };
  EXPECT_THROW(optim::Muon({{.parameters = {v}}}), tg::ValueError);
  EXPECT_THROW(optim::Muon(std::vector<tg::NamedTensor>{}), tg::ValueError);
  EXPECT_THROW(make({.lr = std::nan("")}), tg::ValueError);
  EXPECT_THROW(make({.momentum = 1.0}), tg::ValueError);
  EXPECT_THROW(make({.ns_steps = 0}), tg::ValueError);
  EXPECT_THROW(make({.eps = 0.0}), tg::ValueError);
  EXPECT_THROW(make({.adamw = {.amsgrad = true}}), tg::ValueError);
  EXPECT_THROW(optim::Muon({{.parameters = {p}, .betas = {{0.9, 0.95}}}}), tg::ValueError);
  EXPECT_THROW(optim::Muon({{.parameters = {v}, .momentum = 0.9, .use_muon = false}}), tg::ValueError);
}
