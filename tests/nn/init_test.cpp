#include <gtest/gtest.h>

#include <cmath>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

double deviation(const tg::Tensor& x) { return std::sqrt(tg::var(x).item()); }

/// The largest difference from the identity of the products of rows.
double skew(const tg::Tensor& rows) {
  const tg::Tensor products = tg::matmul(rows, rows.transpose(0, 1));
  return (products - tg::eye(rows.size(0), rows.dtype())).abs().max().item();
}

TEST(InitTest, BoundsAndDeviationsMustMakeSense) {
  const tg::Tensor x = tg::ones({2});
  EXPECT_THROW(nn::init::uniform_(x, 1.0, 0.0), tg::ValueError);
  EXPECT_THROW(nn::init::uniform_(x, 0.0, std::nan("")), tg::ValueError);
  EXPECT_THROW(nn::init::normal_(x, 0.0, -1.0), tg::ValueError);
  EXPECT_THROW(nn::init::normal_(x, 0.0, std::nan("")), tg::ValueError);
  EXPECT_THROW(nn::init::normal_(x, std::nan("")), tg::ValueError);
  EXPECT_THROW(nn::init::normal_(x, 0.0, INFINITY), tg::ValueError);
  EXPECT_THROW(nn::init::uniform_(x, -INFINITY, INFINITY), tg::ValueError);
  EXPECT_THROW(nn::init::orthogonal_(tg::ones({2, 2}), std::nan("")), tg::ValueError);
  for (const auto& initialise : {nn::init::orthogonal_, nn::init::xavier_uniform_, nn::init::xavier_normal_})
    EXPECT_THROW(initialise(tg::ones({2, 2}, tg::int64), 1.0), tg::DtypeError);
  EXPECT_THROW(nn::init::trunc_normal_(tg::ones({2}, tg::int64)), tg::DtypeError);
  EXPECT_TRUE(tg::equal(x, tg::ones({2})));
}

}  // namespace

TEST(InitTest, BoundsAndMoments) {
  tg::Tensor w = tg::empty({300, 100});
  const double bound = std::sqrt(6.0 / 400);
  EXPECT_LE(nn::init::xavier_uniform_(w).abs().max().item(), bound);
  EXPECT_GT(w.abs().max().item(), 0.99 * bound);
  EXPECT_NEAR(std::sqrt(tg::var(nn::init::normal_(w, 1.0, 0.02)).item()), 0.02, 5e-4);
  EXPECT_NEAR(w.mean().item(), 1.0, 1e-3);
  EXPECT_NEAR(std::sqrt(tg::var(nn::init::kaiming_normal_(w)).item()), std::sqrt(0.02), 3e-3);
  EXPECT_TRUE(tg::equal(nn::init::ones_(w), tg::ones({300, 100})));
  EXPECT_THROW(nn::init::xavier_normal_(tg::empty({3})), tg::ShapeError);
}

TEST(InitTest, KaimingFollowsTheFan) {
  const tg::Tensor w = tg::empty({300, 10, 3, 3});
  const auto largest = [&](nn::init::Fan fan) { return nn::init::kaiming_uniform_(w, 1.0, fan).abs().max().item(); };
  EXPECT_NEAR(largest(nn::init::Fan::in), std::sqrt(3.0 / 90), 1e-3);
  EXPECT_LE(largest(nn::init::Fan::in), std::sqrt(3.0 / 90) * (1 + 1e-6));
  EXPECT_NEAR(largest(nn::init::Fan::out), std::sqrt(3.0 / 2700), 1e-4);
  EXPECT_NEAR(deviation(nn::init::kaiming_normal_(w, 2.0, nn::init::Fan::out)), 2 / std::sqrt(2700.0), 1e-3);
}

TEST(InitTest, XavierSpreadsByBothFans) {
  const tg::Tensor w = tg::empty({150, 250}, tg::float64);
  EXPECT_NEAR(deviation(nn::init::xavier_normal_(w, 2.0)), 2 * std::sqrt(2.0 / 400), 2e-3);
  EXPECT_NEAR(deviation(nn::init::xavier_uniform_(w)), std::sqrt(6.0 / 400 / 3), 1e-3);
}

TEST(InitTest, UniformStaysBetweenItsBounds) {
  const tg::Tensor w = nn::init::uniform_(tg::empty({10000}, tg::float64), -2, 3);
  EXPECT_GE(w.min().item(), -2.0);
  EXPECT_LT(w.max().item(), 3.0);
  EXPECT_NEAR(w.mean().item(), 0.5, 0.1);
  EXPECT_NEAR(deviation(w), 5 / std::sqrt(12.0), 0.05);
}

TEST(InitTest, TruncatedNormalKeepsItsShapeBetweenItsBounds) {
  // The standard normal between -1 and 1 has the variance 1 - 2 phi(1) / (2 Phi(1) - 1) = 0.2911.
  tg::Tensor w = nn::init::trunc_normal_(tg::empty({40000}), 5.0, 0.1, 4.9, 5.1);
  EXPECT_GE(w.min().item(), 4.9f);
  EXPECT_LE(w.max().item(), 5.1f);
  EXPECT_NEAR(w.mean().item(), 5.0, 2e-3);
  EXPECT_NEAR(deviation(w), 0.1 * std::sqrt(0.29112509), 1e-3);
  // Between 0 and infinity it is the half normal distribution, of mean sqrt(2 / pi).
  w = nn::init::trunc_normal_(tg::empty({40000}, tg::float64), 0, 1, 0, 1e300);
  EXPECT_NEAR(w.mean().item(), std::sqrt(2 / std::acos(-1.0)), 0.02);
  EXPECT_EQ(nn::init::trunc_normal_(tg::empty({0, 3})).numel(), 0);
  EXPECT_THROW(nn::init::trunc_normal_(w, 0, 1, 4, 5), tg::ValueError);
  EXPECT_THROW(nn::init::trunc_normal_(w, 0, 0), tg::ValueError);
  EXPECT_THROW(nn::init::trunc_normal_(w, 0, 1, 2, -2), tg::ValueError);
  EXPECT_THROW(nn::init::trunc_normal_(w, std::nan("")), tg::ValueError);
}

TEST(InitTest, OrthogonalRowsOrColumns) {
  const tg::Tensor wide = nn::init::orthogonal_(tg::empty({20, 50}, tg::float64));
  EXPECT_LT(skew(wide), 1e-13);
  const tg::Tensor tall = nn::init::orthogonal_(tg::empty({50, 20}, tg::float64), 3.0);
  EXPECT_LT(skew(tall.transpose(0, 1) / 3), 1e-13);
  EXPECT_LT(skew(nn::init::orthogonal_(tg::empty({64, 64}, tg::float64))), 1e-13);
  EXPECT_LT(skew(nn::init::orthogonal_(tg::empty({8, 2, 3, 3})).reshape({8, 18})), 1e-6);
  // The diagonal is as often negative as positive.
  double sum = 0;
  for (int i = 0; i < 400; ++i) sum += nn::init::orthogonal_(tg::empty({2, 2})).select(0, 0).select(0, 0).item();
  EXPECT_LT(std::abs(sum / 400), 0.15);
  EXPECT_EQ(nn::init::orthogonal_(tg::empty({0, 3})).numel(), 0);
  EXPECT_THROW(nn::init::orthogonal_(tg::empty({3})), tg::ShapeError);
}

TEST(InitTest, CopiesValuesInto) {
  const tg::Tensor x = tg::zeros({2, 2}).requires_grad_();
  nn::init::copy_(x, tg::tensor({1, 2}));  // converted, and broadcast
  EXPECT_TRUE(tg::equal(x, tg::tensor({{1.0, 2.0}, {1.0, 2.0}})));
  nn::init::copy_(x.select(0, 0).detach(), tg::ones({2}));
  nn::init::copy_(x.detach(), x.transpose(0, 1));  // of its own memory
  EXPECT_TRUE(tg::equal(x, tg::tensor({{1.0, 1.0}, {1.0, 2.0}})));
  EXPECT_TRUE(x.requires_grad() && x.is_leaf());
  EXPECT_THROW(nn::init::copy_(x, tg::ones({3})), tg::ShapeError);
  EXPECT_THROW(nn::init::copy_(tg::zeros({2}).expand({2, 2}), x.detach()), tg::ValueError);
  EXPECT_THROW(nn::init::copy_(x * 2, x), tg::GradError);
}

TEST(InitTest, SeedsReproduce) {
  const auto drawn = [] {
    tg::manual_seed(11);
    tg::Tensors list;
    for (auto* init : {+[](const tg::Tensor& x) { return nn::init::trunc_normal_(x); },
                       +[](const tg::Tensor& x) { return nn::init::orthogonal_(x); },
                       +[](const tg::Tensor& x) { return nn::init::kaiming_normal_(x); },
                       +[](const tg::Tensor& x) { return nn::init::xavier_uniform_(x); }})
      list.push_back(init(tg::empty({7, 9})));
    return list;
  };
  const tg::Tensors once = drawn(), again = drawn();
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(tg::equal(once[i], again[i]));
}

TEST(InitTest, WritesIntoParametersInPlace) {
  const nn::Linear layer(4, 4);
  const auto* body = layer.weight().body();
  nn::init::orthogonal_(layer.weight());
  EXPECT_EQ(layer.weight().body(), body);
  EXPECT_TRUE(layer.weight().requires_grad() && layer.weight().is_leaf());
  EXPECT_LT(skew(layer.weight().detach()), 1e-6);
}
