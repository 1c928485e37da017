// Softmax and layer norm against plain loops in double.
#include <cmath>
#include <string>

#include "expectations.hpp"

namespace tapegrad {
namespace {

using namespace expectations;

class Normalisation : public ForBothDtypes {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Normalisation, testing::Values(float32, float64),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

TEST_P(Normalisation, SoftmaxOfRowsOfAnyWidth) {
  for (std::int64_t width : {1, 2, 7, 8, 15, 16, 17, 64, 65, 1000}) {
    const Tensor x = randn({3, width}, GetParam()) * 5.0;
    const auto w = static_cast<std::size_t>(width);
    expect_near(softmax(x, -1), softmax_rows(x.to_vector<double>(), w), tolerance(GetParam()));
    expect_near(log_softmax(x, -1), softmax_rows(x.to_vector<double>(), w, true), tolerance(GetParam()));
  }
}

TEST_P(Normalisation, SoftmaxBackwardIsTheJacobianTimesG) {
  const Tensor x = randn({4, 37}, GetParam()).requires_grad_();
  const Tensor g = randn({4, 37}, GetParam());
  const Values y = softmax_rows(x.to_vector<double>(), 37), gs = g.to_vector<double>();
  Values plain(y.size()), logarithm(y.size());
  for (std::size_t row = 0; row < y.size(); row += 37) {
    double dot = 0, total = 0;
    for (std::size_t i = row; i < row + 37; ++i) dot += y[i] * gs[i], total += gs[i];
    for (std::size_t i = row; i < row + 37; ++i) {
      plain[i] = y[i] * (gs[i] - dot);
      logarithm[i] = gs[i] - y[i] * total;
    }
  }
  expect_near(autograd::grad({softmax(x, 1)}, {x}, {.grad_outputs = {g}})[0], plain, tolerance(GetParam()));
  expect_near(autograd::grad({log_softmax(x, 1)}, {x}, {.grad_outputs = {g}})[0], logarithm, tolerance(GetParam()));
}

TEST_P(Normalisation, SoftmaxAlongAnyAxisAndOfStridedInput) {
  const Tensor x = randn({5, 3, 18}, GetParam()).transpose(0, 2);
  for (int axis : {0, 1, 2, -2}) {
    const Tensor expected = softmax(x.clone().transpose(axis, -1).contiguous(), -1).transpose(axis, -1);
    EXPECT_TRUE(allclose(softmax(x, axis), expected, 0, 0));
    EXPECT_TRUE(allclose(log_softmax(x, axis), log_softmax(x.transpose(axis, -1), -1).transpose(axis, -1), 0, 0));
  }
}

TEST_P(Normalisation, SoftmaxOfLargeAndInfiniteNumbers) {
  const Dtype dtype = GetParam();
  expect_near(softmax(tensor({1000., 1001.}, dtype), 0), {0.26894142137, 0.73105857863}, 1e-7);
  expect_near(log_softmax(tensor({-1000., -1001.}, dtype), 0), {-0.31326168752, -1.31326168752}, 1e-6);
  expect_near(softmax(tensor({0., -kInf, 0.}, dtype), 0), {0.5, 0, 0.5}, 0);
  expect_near(log_softmax(tensor({0., -kInf}, dtype), 0), {0, -kInf}, 0);
  expect_near(softmax(tensor({-kInf, -kInf}, dtype), 0), {kNaN, kNaN}, 0);
  for (std::int64_t at : {0, 5, 16, 17}) {  // wherever the NaN stands, the whole row shows it
    Values row(18, 1.0);
    row[static_cast<std::size_t>(at)] = kNaN;
    expect_near(softmax(from_vector(row, {18}, dtype), 0), Values(18, kNaN), 0);
  }
}

TEST(Softmax, OfNothing) {
  EXPECT_EQ(softmax(zeros({0, 3}), 1).shape(), (Shape{0, 3}));
  EXPECT_EQ(softmax(zeros({3, 0}), 1).shape(), (Shape{3, 0}));
  EXPECT_EQ(log_softmax(zeros({3, 0}), 0).shape(), (Shape{3, 0}));
  expect_throws<DtypeError>([] { softmax(tensor({1, 2}), 0); }, {"softmax", "int64"});
  expect_throws<ShapeError>([] { softmax(zeros({2}), 1); }, {"softmax", "axis"});
}

struct Normalised {
  Values y, gx, gw, gb;
};
/// Layer norm and its gradients, by the definition.
Normalised normalise(const Values& x, const Values& w, const Values& b, const Values& g, double eps) {
  const std::size_t n = w.size();
  Normalised r{Values(x.size()), Values(x.size()), Values(n), Values(n)};
  for (std::size_t row = 0; row < x.size(); row += n) {
    double mean = 0, var = 0, a = 0, c = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[row + i] / n;
    for (std::size_t i = 0; i < n; ++i) var += (x[row + i] - mean) * (x[row + i] - mean) / n;
    const double inverse = 1 / std::sqrt(var + eps);
    const auto normal = [&](std::size_t i) { return (x[row + i] - mean) * inverse; };
    for (std::size_t i = 0; i < n; ++i) {
      r.y[row + i] = normal(i) * w[i] + b[i];
      r.gw[i] += g[row + i] * normal(i);
      r.gb[i] += g[row + i];
      a += g[row + i] * w[i] / n;
      c += g[row + i] * w[i] * normal(i) / n;
    }
    for (std::size_t i = 0; i < n; ++i) r.gx[row + i] = (g[row + i] * w[i] - a - normal(i) * c) * inverse;
  }
  return r;
}

TEST_P(Normalisation, LayerNormIsItsDefinition) {
  const double near = tolerance(GetParam()) * 10;
  for (std::int64_t width : {1, 3, 16, 33, 128}) {
    const Tensor x = randn({600, width}, GetParam()).requires_grad_(), g = randn({600, width}, GetParam());
    const Tensor w = randn({width}, GetParam()).requires_grad_(), b = randn({width}, GetParam()).requires_grad_();
    const auto expected =
        normalise(x.to_vector<double>(), w.to_vector<double>(), b.to_vector<double>(), g.to_vector<double>(), 1e-2);
    const Tensor y = layer_norm(x, w, b, 1e-2);
    const Tensors gradients = autograd::grad({y}, {x, w, b}, {.grad_outputs = {g}});
    expect_near(y, expected.y, near);
    expect_near(gradients[0], expected.gx, near);
    expect_near(gradients[1], expected.gw, near * 10);
    expect_near(gradients[2], expected.gb, near * 10);
  }
}

TEST_P(Normalisation, LayerNormWithoutParametersAndOverSeveralDimensions) {
  const Tensor x = randn({4, 3, 5}, GetParam()).transpose(0, 1).requires_grad_();
  const Tensor ones_like_rows = ones({4, 5}, GetParam()), zeros_like_rows = zeros({4, 5}, GetParam());
  const Tensor plain = layer_norm(x, {}, {}, 1e-5, 2);
  const double near = tolerance(GetParam());
  EXPECT_TRUE(allclose(plain, layer_norm(x, ones_like_rows, zeros_like_rows, 1e-5, 2), near, near));
  EXPECT_TRUE(allclose(plain, layer_norm(x.reshape({3, 20}), {}, {}).reshape({3, 4, 5}), near, near));
  const Tensor bias = randn({5}, GetParam()).requires_grad_();
  layer_norm(x, {}, bias).sum().backward();
  EXPECT_TRUE(allclose(bias.grad(), full({5}, 12.0, GetParam())));
}

TEST(LayerNorm, OfAConstantRowIsFinite) {
  const Tensor x = full({1, 256}, 1234.0f).requires_grad_();
  const Tensor y = layer_norm(x, {}, {});
  EXPECT_LT(y.abs().max().item(), 0.05);
  y.backward(randn({1, 256}));
  EXPECT_TRUE(all(isfinite(x.grad())).item());
}

TEST(LayerNorm, OfNothing) {
  const Tensor x = zeros({0, 3}).requires_grad_(), w = ones({3}).requires_grad_(), b = ones({3}).requires_grad_();
  layer_norm(x, w, b).sum().backward();
  EXPECT_TRUE(equal(w.grad(), zeros({3})));
  EXPECT_EQ(layer_norm(zeros({3, 0}), {}, {}).shape(), (Shape{3, 0}));
  expect_throws<ShapeError>([&] { layer_norm(zeros({2, 4}), w, {}); }, {"layer_norm", "weight", "[4]", "[3]"});
  expect_throws<ShapeError>([&] { layer_norm(zeros({2}), {}, {}, 1e-5, 2); }, {"layer_norm", "normalized_rank"});
  for (double eps : {-1e-5, kNaN}) {
    expect_throws<ValueError>([&] { layer_norm(x, w, b, eps); }, {"layer_norm: eps must be 0 or more"});
    expect_throws<ValueError>([&] { rms_norm(x, w, eps); }, {"rms_norm: eps must be 0 or more"});
  }
  expect_throws<DtypeError>([&] { layer_norm(zeros({2, 3}, float64), w, {}); }, {"layer_norm", "float64", "float32"});
}

}  // namespace
}  // namespace tapegrad
