#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <tapegrad/tapegrad.hpp>

#include <reference/attention_loops.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
using attention_loops::Rules;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  tg::Tensor q, k, v;
};
Case random_case(tg::Dtype dtype = tg::float64, std::int64_t queries = 5, std::int64_t keys = 7) {
  return {tg::randn({2, 3, queries, 4}, dtype), tg::randn({2, 3, keys, 4}, dtype), tg::randn({2, 3, keys, 6}, dtype)};
}

void expect_near(const tg::Tensor& got, const std::vector<double>& expected, double tolerance) {
  const auto values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], tolerance) << "at " << i;
}

void expect_oracle(const Case& c, const nn::AttentionOptions& options, const Rules& rules, double tolerance = 1e-12) {
  const auto expected = attention_loops::attend(c.q, c.k, c.v, rules);
  const auto [output, weights] = nn::scaled_dot_product_attention(c.q, c.k, c.v, options);
  expect_near(output, expected.output, tolerance);
  expect_near(weights, expected.weights, tolerance);
  nn::AttentionOptions without = options;
  without.need_weights = false;
  const auto fast = nn::scaled_dot_product_attention(c.q, c.k, c.v, without);
  EXPECT_FALSE(fast.weights.defined());
  expect_near(fast.output, expected.output, tolerance);
}

/// A row of blanks, a full row, and a random pattern besides.
tg::Tensor random_mask(std::int64_t queries, std::int64_t keys) {
  tg::Tensor mask = tg::gt(tg::rand({queries, keys}), 0.5).to(tg::float32);
  return tg::cat({tg::zeros({1, keys}), tg::ones({1, keys}), mask.slice(0, 2, queries)});
}

Rules by(const tg::Tensor& mask) {
  return {.allowed = [values = mask.to_vector<double>(), keys = mask.size(-1)](std::int64_t, std::int64_t i,
                                                                               std::int64_t j) {
    return values[static_cast<std::size_t>(i * keys + j)] != 0;
  }};
}

}  // namespace

TEST(AttentionTest, AgreesWithTheLoops) {
  tg::manual_seed(1);
  expect_oracle(random_case(), {}, {});
  expect_oracle(random_case(tg::float32), {}, {}, 2e-6);
  expect_oracle(random_case(tg::float64, 3, 100), {}, {});
}

TEST(AttentionTest, CausalIsAlignedBottomRight) {
  for (const auto& [queries, keys] : {std::pair{5, 5}, {3, 7}, {7, 3}, {40, 40}, {1, 9}})
    expect_oracle(random_case(tg::float64, queries, keys), {.is_causal = true}, {.is_causal = true});
}

TEST(AttentionTest, MasksAgreeWithTheLoops) {
  const tg::Tensor mask = random_mask(5, 7);
  expect_oracle(random_case(), {.mask = mask}, by(mask));
  expect_oracle(random_case(), {.mask = (mask * -3).to(tg::int64)}, by(mask));
  expect_oracle(random_case(), {.mask = tg::ne(mask, 0)}, by(mask));
  expect_oracle(random_case(), {.mask = mask.transpose(0, 1).contiguous().transpose(0, 1)}, by(mask));
  expect_oracle(random_case(tg::float32), {.mask = mask}, by(mask), 2e-6);
}

TEST(AttentionTest, MaskAndCausalTogetherAreTheIntersection) {
  const tg::Tensor mask = random_mask(5, 5);
  Rules both = by(mask);
  both.is_causal = true;
  expect_oracle(random_case(tg::float64, 5, 5), {.mask = mask, .is_causal = true}, both);
}

TEST(AttentionTest, BatchMasksBroadcast) {
  const Case heads = random_case();  // [2, 3, queries, keys]
  const Case items{heads.q.flatten(0, 1), heads.k.flatten(0, 1), heads.v.flatten(0, 1)};
  for (const auto& [c, all, shape] : {std::tuple{heads, tg::Shape{2, 3, 5, 7}, tg::Shape{5, 7}},
                                      {heads, {2, 3, 5, 7}, {3, 5, 7}},
                                      {heads, {2, 3, 5, 7}, {2, 1, 5, 7}},
                                      {heads, {2, 3, 5, 7}, {2, 3, 5, 7}},
                                      {heads, {2, 3, 5, 7}, {2, 1, 1, 7}},
                                      {items, {6, 5, 7}, {5, 7}},
                                      {items, {6, 5, 7}, {6, 5, 7}}}) {
    SCOPED_TRACE(shape.to_string());
    const tg::Tensor mask = tg::gt(tg::rand(shape), 0.3);
    const auto values = mask.expand(all).to_vector<double>();
    expect_oracle(c, {.mask = mask}, {.allowed = [&](std::int64_t n, std::int64_t i, std::int64_t j) {
                    return values[static_cast<std::size_t>((n * 5 + i) * 7 + j)] != 0;
                  }});
  }
}

TEST(AttentionTest, LeadingDimensionsBroadcastAndMayBeAbsent) {
  const auto [q, k, v] = random_case();
  const tg::Tensor shared = k.select(0, 0).select(0, 0), values = v.select(0, 0).select(0, 0);
  const auto result = nn::scaled_dot_product_attention(q, shared, values);
  const auto full = nn::scaled_dot_product_attention(q, shared.expand({2, 3, 7, 4}), values.expand({2, 3, 7, 6}));
  EXPECT_TRUE(tg::allclose(result.output, full.output));
  EXPECT_EQ(nn::scaled_dot_product_attention(shared, shared, values).output.shape(), (tg::Shape{7, 6}));
}

TEST(AttentionTest, BlockedIsExactlyZeroAndABlankRowPassesNothing) {
  tg::Tensor x = tg::randn({2, 5, 4}).requires_grad_();
  const tg::Tensor mask = random_mask(5, 5);
  const auto [output, weights] = nn::scaled_dot_product_attention(x, x, x, mask);
  EXPECT_TRUE(tg::equal(tg::where(mask, 0.0, weights), tg::zeros({2, 5, 5})));
  EXPECT_TRUE(tg::equal(output.select(1, 0), tg::zeros({2, 4})));
  (output.select(1, 0).sum() + weights.select(1, 0).pow(2).sum()).backward();
  EXPECT_TRUE(tg::equal(x.grad(), tg::zeros({2, 5, 4})));
}

TEST(AttentionTest, NothingLeaksFromBehindTheMask) {
  for (const double poison : {kNan, kInfinity, -kInfinity}) {
    const tg::Tensor bad = tg::full({1, 4}, poison);
    const tg::Tensor clean = tg::randn({5, 4});
    tg::Tensor x = tg::cat({clean, bad}).requires_grad_();
    const tg::Tensor mask = nn::create_padding_mask({5}, 6).select(0, 0);
    const auto masked = nn::scaled_dot_product_attention(x, x, x, mask);
    EXPECT_TRUE(
        tg::allclose(masked.output.slice(0, 0, 5), nn::scaled_dot_product_attention(clean, clean, clean).output));
    EXPECT_TRUE(tg::equal(masked.output.select(0, 5), tg::zeros({4})));
    masked.output.pow(2).sum().backward();
    EXPECT_TRUE(tg::all(tg::isfinite(x.grad())).item());

    const tg::Tensor causal = nn::scaled_dot_product_attention(x, x, x, {.is_causal = true}).output;
    EXPECT_TRUE(tg::all(tg::isfinite(causal.slice(0, 0, 5))).item());
    EXPECT_TRUE(tg::all(tg::isnan(causal.select(0, 5))).item()) << "what is attended to is not hidden";
  }
}

TEST(AttentionTest, ShapesOfOutputAndWeights) {
  const tg::Tensor x = tg::randn({2, 4, 8});
  const auto [output, weights] = nn::scaled_dot_product_attention(x, x, x);
  EXPECT_EQ(output.shape(), (tg::Shape{2, 4, 8}));
  EXPECT_EQ(weights.shape(), (tg::Shape{2, 4, 4}));
}

TEST(AttentionTest, RowsSumToOne) {
  const tg::Tensor x = tg::randn({2, 4, 8}), one = tg::ones({2, 4});
  EXPECT_TRUE(tg::allclose(nn::scaled_dot_product_attention(x, x, x).weights.sum(-1), one, 0, 1e-6));
  EXPECT_TRUE(tg::allclose(nn::scaled_dot_product_attention(x, x, x, {.window = 1}).weights.sum(-1), one, 0, 1e-6));
}

TEST(AttentionTest, CausalMaskHidesTheFuture) {
  const tg::Tensor x = tg::randn({2, 4, 8}), lower = tg::tril(tg::ones({2, 4, 4}));
  for (const nn::AttentionOptions& options :
       {nn::AttentionOptions{.mask = lower}, nn::AttentionOptions{.is_causal = true}})
    EXPECT_TRUE(
        tg::equal(tg::triu(nn::scaled_dot_product_attention(x, x, x, options).weights, 1), tg::zeros({2, 4, 4})));
}

TEST(AttentionTest, ARowIsAQueryAndAColumnAKey) {
  const tg::Tensor q = tg::tensor({{0.0, 50.0}, {50.0, 0.0}, {50.0, 0.0}}), k = tg::tensor({{1.0, 0.0}, {0.0, 1.0}});
  EXPECT_TRUE(tg::allclose(nn::scaled_dot_product_attention(q, k, k).weights,
                           tg::tensor({{0.0, 1.0}, {1.0, 0.0}, {1.0, 0.0}})));
}

TEST(AttentionTest, AWeightIsHowMuchTheQueryAttendsToTheKey) {
  const tg::Tensor only_first = tg::tensor({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}});
  const tg::Tensor x = tg::randn({1, 3, 4});
  const tg::Tensor expected = x.slice(1, 0, 1).expand({1, 3, 4});
  EXPECT_TRUE(tg::allclose(nn::scaled_dot_product_attention(x, x, x, only_first).output, expected));
  EXPECT_TRUE(tg::allclose(nn::SelfAttention(4)(x, only_first).output, expected));
}

TEST(AttentionTest, AMaskIsNotABias) {
  const tg::Tensor zero = tg::zeros({2, 2}), lower = tg::tril(tg::ones({2, 2}));
  EXPECT_TRUE(tg::allclose(nn::scaled_dot_product_attention(zero, zero, zero, lower).weights,
                           tg::tensor({{1.0, 0.0}, {0.5, 0.5}})));
  EXPECT_TRUE(tg::allclose(nn::scaled_dot_product_attention(zero, zero, zero, {.bias = lower}).weights,
                           tg::tensor({{0.73105858, 0.26894142}, {0.5, 0.5}})));
  const tg::Tensor blocking = tg::tensor({{0.0, -kInfinity}, {-kInfinity, -kInfinity}});
  EXPECT_TRUE(tg::equal(nn::scaled_dot_product_attention(zero, zero, zero, {.bias = blocking}).weights,
                        tg::tensor({{1.0, 0.0}, {0.0, 0.0}})));
}

TEST(AttentionTest, ScaleKeepsWideSoftmaxFromSaturating) {
  const tg::Tensor q = tg::randn({16, 4096}), k = tg::randn({64, 4096}), v = tg::randn({64, 2});
  EXPECT_LT(nn::scaled_dot_product_attention(q, k, v).weights.max().item(), 0.6);
  const auto sharp = nn::scaled_dot_product_attention(q, k, v, {.scale = 1.0});
  EXPECT_GT(sharp.weights.max(-1).mean().item(), 0.9);
}

TEST(AttentionTest, WeightsAreReturnedBeforeDropout) {
  tg::manual_seed(4);
  const auto [q, k, v] = random_case(tg::float32);
  const auto dropped = nn::scaled_dot_product_attention(q, k, v, {.dropout_p = 0.5});
  const auto whole = nn::scaled_dot_product_attention(q, k, v);
  EXPECT_TRUE(tg::equal(dropped.weights, whole.weights));
  EXPECT_FALSE(tg::allclose(dropped.output, whole.output));
  EXPECT_TRUE(tg::equal(nn::scaled_dot_product_attention(q, k, v, {.dropout_p = 1.0}).output, tg::zeros({2, 3, 5, 6})));
}

TEST(AttentionTest, GradientsOfBothOrders) {
  tg::manual_seed(2);
  const tg::Tensor mask = random_mask(3, 4);
  const auto f = [&](const tg::Tensors& in) {
    const auto [output, weights] = nn::scaled_dot_product_attention(in[0], in[1], in[2], {.mask = mask, .bias = in[3]});
    return tg::Tensors{output, weights};
  };
  const auto causal = [](const tg::Tensors& in) {
    return nn::scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true, .need_weights = false}).output;
  };
  const auto r = [](const tg::Shape& shape) { return tg::randn(shape, tg::float64); };
  const tg::Tensors inputs = {r({2, 3, 2}), r({2, 4, 2}), r({2, 4, 3})};
  tg::Tensors with_bias = inputs;
  with_bias.push_back(r({3, 4}));
  for (const auto& report : {tg::autograd::gradcheck(f, with_bias, {.atol = 1e-7, .rtol = 1e-6}),
                             tg::autograd::gradcheck(causal, inputs, {.atol = 1e-7, .rtol = 1e-6}),
                             tg::autograd::gradgradcheck(f, with_bias), tg::autograd::gradgradcheck(causal, inputs)})
    EXPECT_TRUE(report) << report.to_string();
}

TEST(AttentionTest, InputsAreUntouched) {
  const auto [q, k, v] = random_case();
  const tg::Tensor mask = random_mask(5, 7), bias = tg::randn({5, 7}, tg::float64), lengths = tg::tensor({{3}, {7}});
  const tg::Tensors inputs = {q, k, v, mask, bias, lengths};
  tg::Tensors before;
  for (const tg::Tensor& x : inputs) before.push_back(x.clone());
  for (const bool need_weights : {true, false})
    nn::scaled_dot_product_attention(q, k, v,
                                     {.mask = mask,
                                      .bias = bias,
                                      .is_causal = true,
                                      .window = 3,
                                      .dropout_p = 0.5,
                                      .need_weights = need_weights,
                                      .key_lengths = lengths});
  for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(tg::equal(inputs[i], before[i])) << i;
}

TEST(AttentionTest, EmptySequences) {
  const auto none = nn::scaled_dot_product_attention(tg::ones({2, 4}), tg::ones({0, 4}), tg::ones({0, 3}));
  EXPECT_TRUE(tg::equal(none.output, tg::zeros({2, 3})));
  EXPECT_EQ(nn::scaled_dot_product_attention(tg::ones({0, 4}), tg::ones({2, 4}), tg::ones({2, 3})).output.shape(),
            (tg::Shape{0, 3}));
}

TEST(AttentionTest, MistakesAreNamed) {
  const auto run = [](const tg::Shape& q, const tg::Shape& k, const tg::Shape& v,
                      const nn::AttentionOptions& options = {}) {
    return nn::scaled_dot_product_attention(tg::ones(q), tg::ones(k), tg::ones(v), options);
  };
  const tg::Tensor x = tg::ones({2, 4}), integers = tg::ones({2, 4}, tg::int64);
  const tg::Shape s{2, 4}, heads{2, 6, 3, 4}, fewer{2, 4, 3, 4};
  const tg::Tensor learned = tg::ones({2, 2}).requires_grad_();
  const std::tuple<std::function<void()>, std::vector<const char*>> mistakes[] = {
      {[&] { nn::scaled_dot_product_attention(integers, integers, integers); }, {"query", "int64", ".to()"}},
      {[&] { nn::scaled_dot_product_attention(x, x, x.to(tg::float64)); }, {"value float64", "query float32"}},
      {[&] { run({4}, s, s); }, {"query", "at least two dimensions", "[4]"}},
      {[&] {
         run({2, 3, 6, 7}, {2, 3, 4, 8}, {2, 3, 4, 8});
       },
       {"key", "[2, 3, 6, 7]", "[2, 3, 4, 8]", "project"}},
      {[&] {
         run({2, 4}, {3, 4}, {5, 4});
       },
       {"value", "[5, 4]", "[3, 4]", "one value for each key"}},
      {[&] {
         run({2, 2, 4}, {3, 2, 4}, s);
       },
       {"leading dimensions", "key [3, 2, 4]", "[2]"}},
      {[&] {
         run(s, s, s, {.mask = tg::ones({3, 3})});
       },
       {"mask", "[3, 3]", "[2, 2]"}},
      {[&] {
         run(s, s, s, {.mask = !nn::padding({1, 2})});
       },
       {"mask", "[2]"}},
      {[&] {
         run(s, s, s, {.bias = tg::ones({3, 2})});
       },
       {"bias", "[3, 2]", "[2, 2]"}},
      {[&] {
         run(s, s, s, {.bias = tg::ones({2, 2}, tg::int64)});
       },
       {"bias", "float32", "int64", "mask"}},
      {[&] { run(s, s, s, {.scale = kNan}); }, {"scale", "nan"}},
      {[&] { run(s, s, s, {.dropout_p = -0.1}); }, {"dropout_p", "[0, 1]", "-0.1"}},
      {[&] {
         run(heads, heads, heads, {.key_lengths = tg::tensor({1.0, 2.0})});
       },
       {"key_lengths", "int64", "float32"}},
      {[&] {
         run(heads, heads, heads, {.key_lengths = tg::tensor({1, 2})});
       },
       {"key_lengths", "[2, 6]", "[N, 1]"}},
      {[&] {
         run(heads, heads, heads, {.key_lengths = tg::tensor({{1}, {4}})});
       },
       {"key_lengths", "[0, 3]", "4 at 1"}},
      {[&] { run(heads, heads, heads, {.key_lengths = tg::tensor(-1)}); }, {"key_lengths", "[0, 3]", "-1"}},
      {[&] { run(heads, fewer, fewer, {.enable_gqa = true}); }, {"multiple", "6 and 4", "[2, 6, 3, 4]", "divides 6"}},
      {[&] {
         run(heads, {2, 0, 3, 4}, {2, 0, 3, 4}, {.enable_gqa = true});
       },
       {"multiple", "6 and 0"}},
      {[&] { run(heads, fewer, heads, {.enable_gqa = true}); }, {"value", "as many heads", "[2, 4, 3, 4]"}},
      {[&] { run(s, s, s, {.enable_gqa = true}); }, {"enable_gqa", "query", "[..., heads, length, width]", "[2, 4]"}},
      {[&] {
         run(heads, {2, 3, 3, 4}, {2, 3, 3, 4});
       },
       {"leading dimensions", "key [2, 3, 3, 4]"}}};
  for (const auto& [call, parts] : mistakes) {
    std::string message;
    try {
      call();
    } catch (const tg::Error& error) {
      message = error.what();
    }
    EXPECT_EQ(message.rfind("scaled_dot_product_attention: ", 0), 0U) << message;
    for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
  EXPECT_THROW(run(s, s, s, {.mask = learned}), tg::GradError);
  EXPECT_THROW(nn::Window(-1), tg::ValueError);
}

TEST(MaskTest, Tables) {
  EXPECT_TRUE(tg::equal(nn::create_causal_mask(4).to(tg::int64), tg::tril(tg::ones({4, 4}, tg::int64))));
  const tg::Tensor padding = nn::create_padding_mask({3, 2, 4}, 4);
  EXPECT_TRUE(tg::equal(padding.select(0, 1).to(tg::int64),
                        tg::tensor({{1, 1, 0, 0}, {1, 1, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}})));
  EXPECT_EQ(padding.to(tg::int64).sum().item(), 9 + 4 + 16);
  EXPECT_TRUE(tg::equal(nn::create_bidirectional_mask(3).to(tg::int64), tg::ones({3, 3}, tg::int64)));
  EXPECT_EQ(nn::create_padding_mask({}, 4).shape(), (tg::Shape{0, 4, 4}));
  EXPECT_THROW(nn::create_padding_mask({2, 5}, 4), tg::ValueError);
  EXPECT_THROW(nn::create_padding_mask({-1}, 4), tg::ValueError);
  EXPECT_THROW(nn::create_causal_mask(-1), tg::ValueError);
}
