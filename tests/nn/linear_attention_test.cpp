// Linear attention: equal to its own formula over all pairs, in time and memory that grow with the length alone.
#include <autograd/expectations.hpp>
#include <reference/cases.hpp>

using namespace tapegrad;
using expectations::expect_throws;
using nn::linear_attention;

namespace {

/// sum_j w_ij v_j / sum_j w_ij with w_ij = phi(q_i).phi(k_j), of two-dimensional operands, in plain loops.
std::vector<double> all_pairs(const Tensor& phi_q, const Tensor& phi_k, const Tensor& value, bool causal) {
  const auto q = phi_q.to_vector<double>(), k = phi_k.to_vector<double>(), v = value.to_vector<double>();
  const auto queries = std::size_t(phi_q.size(0)), keys = std::size_t(phi_k.size(0)),
             width = std::size_t(phi_q.size(1)), out = std::size_t(value.size(1));
  std::vector<double> result;
  for (std::size_t i = 0; i < queries; ++i) {
    std::vector<double> row(out, 0.0);
    double total = 0;
    for (std::size_t j = 0; j < (causal ? i + 1 : keys); ++j) {
      double weight = 0;
      for (std::size_t d = 0; d < width; ++d) weight += q[i * width + d] * k[j * width + d];
      total += weight;
      for (std::size_t d = 0; d < out; ++d) row[d] += weight * v[j * out + d];
    }
    for (const double x : row) result.push_back(total == 0 ? 0 : x / total);
  }
  return result;
}

Tensor elu_plus_one(const Tensor& x) { return where(gt(x, 0), x + 1, exp(x)); }

}  // namespace

TEST(LinearAttentionTest, AgreesWithTheLoops) {
  manual_seed(1);
  for (const std::int64_t length : {1, 2, 63, 64, 65, 130, 200})
    for (const bool causal : {false, true}) {
      const Tensor q = randn({length, 3}, float64), k = randn({length, 3}, float64), v = randn({length, 5}, float64);
      expectations::expect_near(linear_attention(q, k, v, {.is_causal = causal}),
                                all_pairs(elu_plus_one(q), elu_plus_one(k), v, causal), 1e-12);
      const auto squares = [](const Tensor& x) { return cat({square(x), abs(x)}, -1); };
      expectations::expect_near(linear_attention(q, k, v, {squares, causal}),
                                all_pairs(squares(q), squares(k), v, causal), 1e-12);
    }
  const Tensor q = randn({4, 3}, float64), k = randn({9, 3}, float64), v = randn({9, 2}, float64);
  expectations::expect_near(linear_attention(q, k, v), all_pairs(elu_plus_one(q), elu_plus_one(k), v, false), 1e-12);
}

TEST(LinearAttentionTest, AgreesWithPyTorch) {
  const reference::Json references = reference::read("positions.json");
  for (const auto& at : references["linear"]) {
    Tensors in = reference::tensors_of(at["inputs"]);
    for (Tensor& x : in) x.requires_grad_();
    const Tensor y = linear_attention(in[0], in[1], in[2], {.is_causal = at["causal"].get<bool>()});
    EXPECT_LT(reference::distance(reference::tensor_of(at["output"]), y), 1e-13);
    y.backward(reference::tensor_of(at["grad"]));
    const Tensors grads = reference::tensors_of(at["grads"]);
    for (std::size_t i = 0; i < in.size(); ++i) EXPECT_LT(reference::distance(grads[i], in[i].grad()), 1e-13) << i;
  }
}

TEST(LinearAttentionTest, Gradients) {
  manual_seed(2);
  for (const bool causal : {false, true}) {
    const auto attend = [&](const Tensors& in) { return linear_attention(in[0], in[1], in[2], {.is_causal = causal}); };
    const Tensors small{randn({2, 3, 2}, float64), randn({2, 3, 2}, float64), randn({2, 3, 3}, float64)};
    TAPEGRAD_GRADCHECK(attend, small) << causal;
    TAPEGRAD_GRADGRADCHECK(attend, small) << causal;
    const Tensors chunks{randn({70, 1}, float64), randn({70, 1}, float64), randn({70, 1}, float64)};
    TAPEGRAD_GRADCHECK(attend, chunks) << causal;
  }
}

TEST(LinearAttentionTest, AnyLeadingDimensionsAndMemory) {
  manual_seed(3);
  const Tensor q = randn({2, 3, 70, 4}), k = randn({3, 70, 4}), v = randn({2, 1, 70, 5});
  for (const bool causal : {false, true}) {
    const Tensor y = linear_attention(q, k, v, {.is_causal = causal});
    ASSERT_EQ(y.shape(), (Shape{2, 3, 70, 5}));
    EXPECT_EQ(y.dtype(), float32);
    const Tensor one = linear_attention(q.select(0, 1).select(0, 2), k.select(0, 2), v.select(0, 1).select(0, 0),
                                        {.is_causal = causal});
    EXPECT_TRUE(allclose(y.select(0, 1).select(0, 2), one, 1e-5, 1e-6));
    const Tensor strided = q.transpose(1, 2).contiguous().transpose(1, 2);
    EXPECT_TRUE(allclose(linear_attention(strided, k, v, {.is_causal = causal}), y, 1e-5, 1e-6));
    EXPECT_EQ(linear_attention(ones({2, 0, 4}), ones({2, 0, 4}), ones({2, 0, 3}), {.is_causal = causal}).shape(),
              (Shape{2, 0, 3}));
  }
  EXPECT_TRUE(equal(linear_attention(ones({2, 4}), ones({0, 4}), ones({0, 3})), zeros({2, 3})));
  expectations::expect_same_on_any_threads([&] { return Tensors{linear_attention(q, k, v, {.is_causal = true})}; });
}

TEST(LinearAttentionTest, WhatComesLaterIsNotSeen) {
  manual_seed(4);
  const Tensor x = randn({150, 4});
  const Tensor y = linear_attention(x, x, x, {.is_causal = true});
  for (const std::int64_t bad : {0, 40, 63, 64, 149}) {
    const Tensor spoilt = where(eq(arange(150), bad).unsqueeze(1), expectations::kNaN, x);
    const Tensor z = linear_attention(x, spoilt, spoilt, {.is_causal = true});
    EXPECT_TRUE(allclose(z.slice(0, 0, bad), y.slice(0, 0, bad), 1e-6, 1e-7)) << bad;
    EXPECT_FALSE(isfinite(z).slice(0, bad, 150).max().item()) << bad;
  }
}

TEST(LinearAttentionTest, WeightsThatSumToZeroGiveZeros) {
  const autograd::AnomalyGuard no_nan_on_the_way;
  const auto relu_features = [](const Tensor& x) { return relu(x); };
  for (const bool causal : {false, true}) {
    Tensor q = tensor({{-1.0, -2.0}, {1.0, 1.0}}).requires_grad_(),
           k = tensor({{-1.0, -1.0}, {1.0, 2.0}}).requires_grad_();
    Tensor v = tensor({{3.0}, {5.0}}).requires_grad_();
    const Tensor y = linear_attention(q, k, v, {relu_features, causal});
    EXPECT_TRUE(equal(y, tensor({{0.0}, {5.0}})));
    y.sum().backward();
    EXPECT_TRUE(equal(q.grad().select(0, 0), zeros({2})));
    EXPECT_TRUE(equal(k.grad().select(0, 0), zeros({2})));
    EXPECT_TRUE(equal(v.grad(), tensor({{0.0}, {1.0}})));
    Tensor zero = tensor({{0.0, 0.0}, {1.0, 1.0}}).requires_grad_(), one = ones({2, 2}).requires_grad_();
    const auto squares = [](const Tensor& x) { return square(x); };
    linear_attention(zero, one, one, {squares, causal}).sum().backward();
    EXPECT_TRUE(equal(zero.grad().select(0, 0), zeros({2})));
    EXPECT_EQ(isfinite(one.grad()).to(int64).sum().item(), 4);
  }
  // Far below zero elu(x) + 1 is e^x, not 0: these weights are small and even.
  const Tensor low = full({3, 2}, -30.0);
  EXPECT_TRUE(allclose(linear_attention(low, low, tensor({{1.0}, {2.0}, {6.0}})), full({3, 1}, 3.0)));
}

TEST(LinearAttentionTest, MemoryGrowsWithTheLengthAlone) {
  const auto peak = [](std::int64_t length) {
    const Tensor x = randn({length, 16}).requires_grad_();
    const std::int64_t before = memory::current();
    memory::reset_peak();
    linear_attention(x, x, x, {.is_causal = true}).sum().backward();
    return static_cast<double>(memory::peak() - before);
  };
  const double short_peak = peak(2048);
  EXPECT_LT(peak(8192), 4.2 * short_peak);
}

TEST(LinearAttentionTest, Mistakes) {
  const Tensor x = ones({2, 4, 3});
  expect_throws<ShapeError>([&] { linear_attention(ones({3}), x, x); }, {"query", "two dimensions", "[3]"});
  expect_throws<ShapeError>([&] { linear_attention(x, ones({2, 4, 5}), x); }, {"key", "[2, 4, 5]", "[2, 4, 3]"});
  expect_throws<ShapeError>([&] { linear_attention(x, x, ones({2, 5, 3})); }, {"value", "[2, 5, 3]", "[2, 4, 3]"});
  expect_throws<ShapeError>([&] { linear_attention(ones({3, 4, 3}), x, x); }, {"linear_attention", "[3]", "[2]"});
  expect_throws<ShapeError>(
      [&] {
        linear_attention(ones({2, 1, 3}), x, x, {.is_causal = true});
      },
      {"causal", "[2, 1, 3]", "[2, 4, 3]"});
  expect_throws<DtypeError>([&] { linear_attention(x, x.to(float64), x); }, {"key", "float64", "float32"});
  expect_throws<DtypeError>([&] { linear_attention(x.to(int64), x, x); }, {"query", "int64"});
  expect_throws<ShapeError>([&] { linear_attention(x, x, x, {[](const Tensor& y) { return y.sum(-1); }}); },
                            {"feature_map", "[2, 4]", "[2, 4, 3]"});
  expect_throws<ShapeError>([&] { linear_attention(x, x, x, {[](const Tensor&) { return Tensor(); }}); }, {"nothing"});
}
