// The path without weights is held to the composed one: values, gradients and gradients of gradients, over lengths that
// fill tiles, end within them or are shorter than a batch of numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <fmt/format.h>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

struct Sizes {
  std::int64_t queries, keys, width, value_width;
};
const Sizes all_sizes[] = {{1, 1, 1, 1},       {5, 5, 4, 4},     {7, 3, 2, 5},     {3, 7, 16, 1},
                           {64, 64, 32, 32},   {96, 192, 8, 8},  {97, 193, 5, 20}, {200, 450, 64, 64},
                           {450, 200, 33, 70}, {300, 300, 3, 17}};

struct Choice {
  const char* name;
  std::function<nn::AttentionOptions(const Sizes&)> options;
};
tg::Tensor random_mask(const tg::Shape& shape) { return tg::gt(tg::rand(shape), 0.4); }
/// One of its elements blocks.
tg::Tensor random_bias(const tg::Shape& shape) {
  const tg::Tensor bias = tg::randn(shape, tg::float64);
  return tg::where(tg::eq(bias, bias.max()), -std::numeric_limits<double>::infinity(), bias).requires_grad_();
}
/// Of two items of three heads.
tg::Tensor lengths_below(std::int64_t keys) { return tg::tensor({{keys / 2}, {keys}}); }
const Choice all_choices[] = {
    {"all", [](const Sizes&) { return nn::AttentionOptions{}; }},
    {"causal", [](const Sizes&) { return nn::AttentionOptions{.is_causal = true}; }},
    {"mask",
     [](const Sizes& s) {
       return nn::AttentionOptions{.mask = random_mask({s.queries, s.keys})};
     }},
    {"batch mask",
     [](const Sizes& s) {
       return nn::AttentionOptions{.mask = random_mask({2, 1, 1, s.keys})};
     }},
    {"mask, causal, scale",
     [](const Sizes& s) {
       return nn::AttentionOptions{.mask = random_mask({2, 3, s.queries, s.keys}), .is_causal = true, .scale = 0.7};
     }},
    {"dropout", [](const Sizes&) { return nn::AttentionOptions{.dropout_p = 0.3}; }},
    {"causal dropout, mask",
     [](const Sizes& s) {
       return nn::AttentionOptions{.mask = random_mask({s.queries, s.keys}), .is_causal = true, .dropout_p = 0.5};
     }},
    {"everything dropped", [](const Sizes&) { return nn::AttentionOptions{.dropout_p = 1.0}; }},
    {"blank rows",
     [](const Sizes& s) {
       return nn::AttentionOptions{.mask = random_mask({s.queries, 1}).expand({s.queries, s.keys})};
     }},
    {"window", [](const Sizes&) { return nn::AttentionOptions{.window = 20}; }},
    {"window to the left",
     [](const Sizes&) { return nn::AttentionOptions{.is_causal = true, .window = nn::Window(100, 7)}; }},
    {"key lengths", [](const Sizes& s) { return nn::AttentionOptions{.key_lengths = lengths_below(s.keys)}; }},
    {"window, key lengths, mask",
     [](const Sizes& s) {
       return nn::AttentionOptions{.mask = random_mask({s.queries, s.keys}),
                                   .window = nn::Window(9, 130),
                                   .key_lengths = lengths_below(s.keys)};
     }},
    {"structured mask",
     [](const Sizes& s) {
       return nn::AttentionOptions{.mask = nn::window(50) & !nn::padding(lengths_below(s.keys)), .is_causal = true};
     }},
    {"bias, causal",
     [](const Sizes& s) {
       return nn::AttentionOptions{.bias = random_bias({3, s.queries, s.keys}), .is_causal = true};
     }},
    {"bias of keys, dropout",
     [](const Sizes& s) { return nn::AttentionOptions{.bias = random_bias({s.keys}), .dropout_p = 0.3}; }},
    {"bias of queries and heads, window",
     [](const Sizes& s) {
       return nn::AttentionOptions{.bias = random_bias({2, 3, s.queries, 1}), .window = 30};
     }},
    {"bias of heads", [](const Sizes&) {
       return nn::AttentionOptions{.bias = random_bias({3, 1, 1})};
     }}};

tg::Tensors operands(const Sizes& s, tg::Dtype dtype) {
  tg::Tensors result = {tg::randn({2, 3, s.queries, s.width}, dtype), tg::randn({2, 3, s.keys, s.width}, dtype),
                        tg::randn({2, 3, s.keys, s.value_width}, dtype)};
  for (tg::Tensor& x : result) x.requires_grad_();
  return result;
}

/// The output, and the gradients of a random sum of it, that of the bias last.
tg::Tensors run(tg::Tensors in, nn::AttentionOptions options, bool fused) {
  options.need_weights = !fused;
  if (options.bias.defined()) {
    options.bias = options.bias.to(in[0].dtype()).detach().requires_grad_();
    in.push_back(options.bias);
  }
  tg::manual_seed(76);  // both paths drop the same weights
  const tg::Tensor output = nn::scaled_dot_product_attention(in[0], in[1], in[2], options).output;
  tg::manual_seed(77);
  const tg::Tensor direction = tg::randn(output.shape(), output.dtype());
  tg::Tensors result = tg::autograd::grad({output}, in, {.grad_outputs = {direction}});
  result.insert(result.begin() + 3, output.detach());
  return result;
}

void expect_close(const tg::Tensors& got, const tg::Tensors& expected, double tolerance, const std::string& what) {
  const char* names[] = {"gradient of query", "gradient of key", "gradient of value", "output", "gradient of bias"};
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), expected[i].shape()) << names[i] << ", " << what;
    if (got[i].numel() == 0) continue;
    EXPECT_LE((got[i] - expected[i]).abs().max().item(), tolerance * (1 + expected[i].abs().max().item()))
        << names[i] << ", " << what;
  }
}

}  // namespace

TEST(FusedAttentionTest, AgreesWithTheComposedPath) {
  for (const Sizes& s : all_sizes)
    for (const Choice& choice : all_choices) {
      tg::manual_seed(5);
      const nn::AttentionOptions options = choice.options(s);
      const std::string what =
          fmt::format("{}, {} x {}, width {} and {}", choice.name, s.queries, s.keys, s.width, s.value_width);
      const tg::Tensors in = operands(s, tg::float64);
      expect_close(run(in, options, true), run(in, options, false), 1e-12, what);
      const tg::Tensors single = operands(s, tg::float32);
      expect_close(run(single, options, true), run(single, options, false), 1e-5, what + ", float32");
    }
}

TEST(FusedAttentionTest, FewHeadsAreCutAndManyAreNot) {
  for (const tg::Shape& heads : {tg::Shape{}, tg::Shape{1}, tg::Shape{3}, tg::Shape{4, 2}, tg::Shape{2, 3, 2}}) {
    const auto shaped = [&](std::int64_t length) {
      tg::Shape shape = heads;
      shape.push_back(length);
      shape.push_back(8);
      return tg::randn(shape, tg::float64).requires_grad_();
    };
    const tg::Tensors in = {shaped(500), shaped(500), shaped(500)};
    expect_close(run(in, {.is_causal = true}, true), run(in, {.is_causal = true}, false), 1e-12, heads.to_string());
  }
}

TEST(FusedAttentionTest, StridesAndBroadcastsAreRead) {
  tg::manual_seed(6);
  const auto leaf = [](const tg::Shape& shape) { return tg::randn(shape, tg::float64).requires_grad_(); };
  const auto as_heads = [](const tg::Tensor& x) { return x.reshape({2, 20, 3, 4}).permute({0, 2, 1, 3}); };
  const tg::Tensors in = {leaf({2, 20, 12}), leaf({2, 20, 12}), leaf({20, 4}), leaf({4, 20})};
  const auto value = [&](bool fused, const tg::Tensor& q, const tg::Tensor& k, const tg::Tensor& v) {
    const nn::AttentionOptions options{.is_causal = true, .need_weights = !fused};
    const tg::Tensor output = nn::scaled_dot_product_attention(q, k, v, options).output;
    EXPECT_EQ(output.shape(), (tg::Shape{2, 3, 20, 4}));
    tg::Tensors result =
        tg::autograd::grad({(output * output).sum()}, in, {.retain_graph = true, .allow_unused = true});
    result.push_back(output.detach());
    return result;
  };
  const auto compare = [&](const tg::Tensor& q, const tg::Tensor& k, const tg::Tensor& v) {
    const tg::Tensors a = value(true, q, k, v), b = value(false, q, k, v);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].defined(), b[i].defined());
      if (a[i].defined()) {
        EXPECT_LE((a[i] - b[i]).abs().max().item(), 1e-12) << i;
      }
    }
  };
  compare(as_heads(in[0]), as_heads(in[1]), as_heads(in[1]));
  compare(as_heads(in[0]), in[2], in[2]);                  // keys and values shared by all heads
  compare(as_heads(in[0]), in[3].transpose(0, 1), in[2]);  // columns that are not adjacent
  compare(tg::flip(as_heads(in[0]), 2), as_heads(in[1]), in[2]);
  compare(as_heads(in[0]), as_heads(in[0]), as_heads(in[0]));  // one tensor in three roles
}

TEST(FusedAttentionTest, MergingTheHeadsIsAView) {
  const tg::Tensor q = tg::randn({2, 20, 12}).reshape({2, 20, 3, 4}).permute({0, 2, 1, 3});
  const tg::Tensor output = nn::scaled_dot_product_attention(q, q, q, {.need_weights = false}).output;
  EXPECT_TRUE(output.permute({0, 2, 1, 3}).array().is_contiguous());
}

TEST(FusedAttentionTest, WhatIsHiddenDoesNotLeak) {
  constexpr std::int64_t kLength = 230, kBad = 200;
  for (const double poison : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity()}) {
    const tg::Tensor clean = tg::randn({kLength, 4});
    const tg::Tensor bad = tg::eq(tg::arange(kLength), kBad).unsqueeze(1).expand({kLength, 4});
    const tg::Tensor x = tg::where(bad, poison, clean).requires_grad_();
    const nn::AttentionOptions causal{.is_causal = true, .need_weights = false};
    tg::Tensor q = clean.clone().requires_grad_();
    const tg::Tensor output = nn::scaled_dot_product_attention(q, x, x, causal).output;
    const tg::Tensor expected = nn::scaled_dot_product_attention(clean, clean, clean, causal).output;
    EXPECT_TRUE(tg::allclose(output.slice(0, 0, kBad), expected.slice(0, 0, kBad), 1e-5, 1e-6));
    if (std::isnan(poison)) {
      EXPECT_TRUE(tg::all(tg::isnan(output.slice(0, kBad, kLength))).item()) << "what is attended to is not hidden";
    }
    output.sum().backward();
    EXPECT_TRUE(tg::all(tg::isfinite(q.grad().slice(0, 0, kBad))).item()) << poison;

    x.set_grad({});
    const tg::Tensor mask = tg::ne(tg::arange(kLength), kBad);
    const nn::AttentionOptions masked{.mask = mask.unsqueeze(0), .need_weights = false};
    const tg::Tensor rest = nn::scaled_dot_product_attention(clean, x, x, masked).output;
    EXPECT_TRUE(tg::allclose(rest, nn::scaled_dot_product_attention(clean, clean, clean, masked).output));
    rest.pow(2).sum().backward();
    EXPECT_TRUE(tg::all(tg::isfinite(x.grad())).item()) << poison;
    EXPECT_TRUE(tg::equal(x.grad().select(0, kBad), tg::zeros({4})));
  }
}

TEST(FusedAttentionTest, ABlankRowIsZeroAndPassesNothing) {
  tg::Tensor x = tg::randn({300, 4}).requires_grad_();
  const tg::Tensor mask = tg::ne(tg::arange(300), 7).unsqueeze(1).expand({300, 300});
  const tg::Tensor row =
      nn::scaled_dot_product_attention(x, x, x, {.mask = mask, .need_weights = false}).output.select(0, 7);
  EXPECT_TRUE(tg::equal(row, tg::zeros({4})));
  row.sum().backward();
  EXPECT_TRUE(tg::equal(x.grad(), tg::zeros({300, 4})));
}

TEST(FusedAttentionTest, LargeScoresNeitherOverflowNorVanish) {
  const tg::Tensor q = tg::full({1, 1}, 1e4), k = tg::tensor({{1e4}, {-1e4}, {0.0}}),
                   v = tg::tensor({{1.0}, {2.0}, {3.0}});
  EXPECT_EQ(nn::scaled_dot_product_attention(q, k, v, {.need_weights = false}).output.item(), 1.0);
  EXPECT_EQ(nn::scaled_dot_product_attention(-q, k, v, {.need_weights = false}).output.item(), 2.0);
}

TEST(FusedAttentionTest, GradientsOfLargeScoresKeepTheirDigits) {
  for (const double score : {1e2, 1e4, 1e6, 1e8, 1e12}) {
    const tg::Tensor q = tg::full({1, 1}, score), k = tg::ones({64, 1});
    tg::Tensor v = tg::randn({64, 1}).requires_grad_();
    nn::scaled_dot_product_attention(q, k, v, {.need_weights = false}).output.sum().backward();
    EXPECT_TRUE(tg::allclose(v.grad(), tg::full({64, 1}, 1.0 / 64))) << score;
  }
}

TEST(FusedAttentionTest, TheScaleComesAfterTheProduct) {
  const nn::AttentionOptions options{.scale = 1e19, .need_weights = false};
  const tg::Tensor v = tg::tensor({{1.0}, {2.0}}), tiny = tg::full({2, 1}, 1e-20);
  EXPECT_EQ(nn::scaled_dot_product_attention(tg::full({1, 1}, 1e20), tiny, v, options).output.item(), 1.5);
  tg::Tensor k = tg::tensor({{1e-3}, {2e-3}}).requires_grad_();
  const tg::Tensor q = tg::tensor({{1e38}, {1.0}}), mask = tg::tensor({{0, 0}, {1, 1}});
  nn::scaled_dot_product_attention(q, k, v, {.mask = mask, .scale = 100.0, .need_weights = false})
      .output.sum()
      .backward();
  const tg::Tensor got = k.grad();
  k.set_grad({});
  nn::scaled_dot_product_attention(q, k, v, {.mask = mask, .scale = 100.0}).output.sum().backward();
  EXPECT_TRUE(tg::allclose(got, k.grad()));
}

/// What nothing hides is seen, as plain arithmetic has it.
TEST(FusedAttentionTest, WithoutAMaskNothingIsHidden) {
  const tg::Tensor q = tg::ones({1, 1}), k = tg::tensor({{-500.0}, {0.0}});
  const tg::Tensor v = tg::tensor({{std::numeric_limits<double>::quiet_NaN()}, {2.0}});
  for (const bool need_weights : {true, false})
    EXPECT_TRUE(std::isnan(
        nn::scaled_dot_product_attention(q, k, v, {.scale = 1.0, .need_weights = need_weights}).output.item()));
}

TEST(FusedAttentionTest, WhatIsHiddenDoesNotLeakIntoRecordedGradients) {
  for (const double poison : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const tg::Tensor bad = tg::full({1, 3}, poison), clean = tg::randn({2, 3});
    tg::Tensor q = tg::cat({clean, bad}).requires_grad_(), k = tg::cat({tg::randn({2, 3}), bad}).requires_grad_(),
               v = tg::cat({tg::randn({2, 3}), bad}).requires_grad_();
    const tg::Tensor mask =
        tg::tensor({{1, 1, 0}, {1, 1, 0}, {0, 0, 0}});  // the third key is hidden, the third row blank
    for (const bool create_graph : {false, true}) {
      const tg::Tensor output = nn::scaled_dot_product_attention(q, k, v, {.mask = mask, .need_weights = false}).output;
      const tg::Tensor g = tg::cat({tg::ones({2, 3}), bad});
      const tg::Tensors gradients =
          tg::autograd::grad({output}, {q, k, v}, {.grad_outputs = {g}, .create_graph = create_graph});
      for (const tg::Tensor& gradient : gradients)
        EXPECT_TRUE(tg::all(tg::isfinite(gradient)).item()) << poison << ", " << create_graph;
    }
  }
}

TEST(FusedAttentionTest, EverySubsetOfGradientsIsTheSame) {
  tg::manual_seed(9);
  for (const std::int64_t heads : {1, 9})
    for (int wanted = 1; wanted < 16; ++wanted) {
      tg::Tensors all, some;
      for (int i = 0; i < 4; ++i) {
        const tg::Shape shape = i < 3 ? tg::Shape{heads, 210, 5} : tg::Shape{210, 1};
        all.push_back(tg::randn(shape, tg::float64).requires_grad_());
        some.push_back(all.back().detach().requires_grad_((wanted >> i & 1) != 0));
      }
      for (const tg::Tensors& in : {all, some}) {
        const nn::AttentionOptions options{.bias = in[3], .is_causal = true, .need_weights = false};
        nn::scaled_dot_product_attention(in[0], in[1], in[2], options).output.pow(2).sum().backward();
      }
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(some[i].grad().defined(), (wanted >> i & 1) != 0);
        if (some[i].grad().defined()) {
          EXPECT_TRUE(tg::equal(some[i].grad(), all[i].grad())) << wanted << ", " << i;
        }
      }
    }
}

TEST(FusedAttentionTest, EmptyOperands) {
  for (const Sizes& s :
       {Sizes{0, 3, 2, 2}, Sizes{3, 0, 2, 2}, Sizes{3, 4, 0, 2}, Sizes{3, 4, 2, 0}, Sizes{0, 0, 0, 0}}) {
    const tg::Tensors in = operands(s, tg::float64);
    for (const nn::AttentionOptions& options :
         {nn::AttentionOptions{.is_causal = true},
          nn::AttentionOptions{.bias = tg::ones({1, 1}, tg::float64), .window = 1},
          nn::AttentionOptions{.bias = tg::ones({3, s.queries, s.keys}, tg::float64)}})
      expect_close(run(in, options, true), run(in, options, false), 1e-12, "empty");
  }
}

TEST(FusedAttentionTest, GradientsOfGradientsAgree) {
  for (const Choice& choice : all_choices) {
    tg::manual_seed(8);
    const Sizes s{4, 5, 3, 2};
    const nn::AttentionOptions options = choice.options(s);
    tg::Tensors in = operands(s, tg::float64);
    if (options.bias.defined()) in.push_back(options.bias);
    const auto second = [&](bool fused) {
      nn::AttentionOptions which = options;
      which.need_weights = !fused;
      tg::manual_seed(78);
      const tg::Tensor output = nn::scaled_dot_product_attention(in[0], in[1], in[2], which).output;
      tg::Tensor sum = tg::zeros({}, tg::float64);
      for (const tg::Tensor& g : tg::autograd::grad({output.pow(3).sum()}, in, {.create_graph = true}))
        sum = sum + g.pow(2).sum();
      return tg::autograd::grad({sum}, in);
    };
    expect_close(second(true), second(false), 1e-10, choice.name);
  }
}

TEST(FusedAttentionTest, MemoryGrowsWithTheLengthAlone) {
  constexpr std::int64_t kLength = 4096, kBytes = 4;
  tg::Tensor x = tg::randn({1, 2, kLength, 16}).requires_grad_();
  const std::int64_t before = tg::memory::current();
  tg::memory::reset_peak();
  nn::scaled_dot_product_attention(x, x, x, {.is_causal = true, .need_weights = false}).output.sum().backward();
  EXPECT_LT(tg::memory::peak() - before, kLength * kLength * kBytes / 8);
}

TEST(FusedAttentionTest, AChangedMaskIsNoticed) {
  tg::Tensor x = tg::randn({3, 4}).requires_grad_();
  tg::Tensor mask = tg::ones({3, 3});
  const tg::Tensor output = nn::scaled_dot_product_attention(x, x, x, {.mask = mask, .need_weights = false}).output;
  nn::init::zeros_(mask);
  EXPECT_THROW(output.sum().backward(), tg::GradError);
}
