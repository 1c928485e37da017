// The options of attention on both paths: held to the loops, parts of the weights, memory, what leaks, and mistakes.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <string>

#include <fmt/format.h>

#include <tapegrad/tapegrad.hpp>

#include <reference/attention_loops.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
using attention_loops::Rules;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr std::int64_t kBatch = 2, kHeads = 4;

nn::AttentionResult attend(const tg::Tensors& in, nn::AttentionOptions options, bool fused) {
  options.need_weights = !fused;
  return nn::scaled_dot_product_attention(in[0], in[1], in[2], options);
}

tg::Tensors operands(std::int64_t queries, std::int64_t keys, std::int64_t key_heads = kHeads,
                     tg::Dtype dtype = tg::float64) {
  return {tg::randn({kBatch, kHeads, queries, 4}, dtype), tg::randn({kBatch, key_heads, keys, 4}, dtype),
          tg::randn({kBatch, key_heads, keys, 3}, dtype)};
}

/// Of elements that broadcast to [kBatch, kHeads, queries, keys].
std::vector<double> elements(const tg::Tensor& x, std::int64_t queries, std::int64_t keys) {
  return x.expand({kBatch, kHeads, queries, keys}).to_vector<double>();
}

struct Choice {
  const char* name;
  std::int64_t key_heads;
  std::function<void(nn::AttentionOptions&, Rules&, std::int64_t queries, std::int64_t keys)> set;
};

void set_window(nn::AttentionOptions& options, Rules& rules, std::int64_t left, std::int64_t right) {
  options.window = nn::Window(left, right);
  rules.left = left;
  rules.right = right;
}
void set_lengths(nn::AttentionOptions& options, Rules& rules, std::int64_t keys) {
  options.key_lengths = tg::tensor({{keys / 2}, {keys}});
  rules.key_lengths.assign(kBatch * kHeads, keys);
  std::fill_n(rules.key_lengths.begin(), kHeads, keys / 2);
}
void set_bias(nn::AttentionOptions& options, Rules& rules, const tg::Tensor& bias, std::int64_t queries,
              std::int64_t keys) {
  options.bias = bias;
  rules.bias = [values = elements(bias, queries, keys), queries, keys](std::int64_t n, std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>((n * queries + i) * keys + j)];
  };
}
void set_mask(nn::AttentionOptions& options, Rules& rules, const tg::Tensor& mask, std::int64_t queries,
              std::int64_t keys) {
  options.mask = mask;
  rules.allowed = [values = elements(mask, queries, keys), queries, keys](std::int64_t n, std::int64_t i,
                                                                          std::int64_t j) {
    return values[static_cast<std::size_t>((n * queries + i) * keys + j)] != 0;
  };
}

const Choice all_choices[] = {
    {"window", kHeads, [](auto& o, auto& r, auto, auto) { set_window(o, r, 2, 1); }},
    {"window of itself", kHeads, [](auto& o, auto& r, auto, auto) { set_window(o, r, 0, 0); }},
    {"window, causal", kHeads,
     [](auto& o, auto& r, auto, auto) {
       set_window(o, r, 60, 5);
       o.is_causal = r.is_causal = true;
     }},
    {"key lengths", kHeads, [](auto& o, auto& r, auto, auto keys) { set_lengths(o, r, keys); }},
    {"grouped", 2, [](auto&, auto& r, auto, auto) { r.group = 2; }},
    {"one head of keys, causal", 1,
     [](auto& o, auto& r, auto, auto) {
       r.group = 4;
       o.is_causal = r.is_causal = true;
     }},
    {"bias of keys", kHeads,
     [](auto& o, auto& r, auto queries, auto keys) { set_bias(o, r, tg::randn({keys}, tg::float64), queries, keys); }},
    {"bias of heads", kHeads,
     [](auto& o, auto& r, auto queries, auto keys) {
       set_bias(o, r, tg::randn({kHeads, queries, keys}, tg::float64), queries, keys);
     }},
    {"everything", 2, [](auto& o, auto& r, auto queries, auto keys) {
       set_window(o, r, 50, 20);
       set_lengths(o, r, keys);
       set_bias(o, r, tg::randn({kBatch, kHeads, 1, keys}, tg::float64), queries, keys);
       set_mask(o, r, tg::gt(tg::rand({kHeads, queries, keys}), 0.3), queries, keys);
       o.is_causal = r.is_causal = true;
       o.scale = r.scale = 0.3;
       r.group = 2;
     }}};

void expect_near(const tg::Tensor& got, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  const auto values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], tolerance) << what << " at " << i;
}

/// Both of two queries don't see the first, or the last, of four keys.
struct Hiding {
  const char* name;
  bool last;
  nn::AttentionOptions options;
};
std::vector<Hiding> ways_to_hide() {
  const tg::Tensor blocked = tg::tensor({{0, 1, 1, 1}}), minus = tg::tensor({{-kInfinity, 0.0, 0.5, 0.0}});
  return {{"mask", false, {.mask = blocked}},
          {"mask, causal", false, {.mask = blocked, .is_causal = true}},
          {"window", false, {.window = nn::Window(1, 2)}},
          {"structured mask", false, {.mask = nn::window(1) & nn::causal(4)}},
          {"key lengths", true, {.key_lengths = tg::tensor(3)}},
          {"padding", true, {.mask = !nn::padding(tg::tensor(3))}},
          {"bias", false, {.bias = minus.to(tg::float64)}},
          {"bias, window", false, {.bias = tg::zeros({4}, tg::float64), .window = 1}}};
}

}  // namespace

TEST(AttentionOptionsTest, BothPathsAgreeWithTheLoops) {
  for (const auto& [queries, keys] : {std::pair{5, 5}, {3, 7}, {7, 3}, {1, 4}, {130, 230}, {210, 100}})
    for (const tg::Dtype dtype : {tg::float64, tg::float32})
      for (const Choice& choice : all_choices) {
        tg::manual_seed(31);
        nn::AttentionOptions options;
        Rules rules;
        choice.set(options, rules, queries, keys);
        options.enable_gqa = choice.key_heads != kHeads;
        if (options.bias.defined()) options.bias = options.bias.to(dtype);
        const tg::Tensors in = operands(queries, keys, choice.key_heads, dtype);
        const auto expected = attention_loops::attend(in[0], in[1], in[2], rules);
        const double tolerance = dtype == tg::float64 ? 1e-12 : 2e-6;
        const std::string what = fmt::format("{}, {} x {}, {}", choice.name, queries, keys, tg::name_of(dtype));
        const auto composed = attend(in, options, false);
        EXPECT_EQ(composed.weights.shape(), (tg::Shape{kBatch, kHeads, queries, keys})) << what;
        expect_near(composed.output, expected.output, tolerance, what);
        expect_near(composed.weights, expected.weights, tolerance, what);
        const auto fused = attend(in, options, true);
        EXPECT_FALSE(fused.weights.defined());
        EXPECT_EQ(fused.output.shape(), composed.output.shape()) << what;
        expect_near(fused.output, expected.output, tolerance, "fused, " + what);
        for (const auto& [batch, head] : {std::pair{0, 0}, {1, 2}}) {
          const std::int64_t first = queries / 2, rows = queries - first;
          const auto begin = expected.weights.begin() + ((batch * kHeads + head) * queries + first) * keys;
          const std::vector<double> part(begin, begin + rows * keys);
          for (const auto& result : {fused, composed})
            expect_near(result.weights_of(batch, head, first, rows), part, tolerance, "weights of " + what);
        }
      }
}

TEST(AttentionOptionsTest, OptionsAndStructuredMasksAreTheSame) {
  const tg::Tensors in = operands(6, 6);
  const tg::Tensor lengths = tg::tensor({{4}, {6}});
  const nn::AttentionOptions options{.is_causal = true, .window = 3, .key_lengths = lengths};
  const nn::AttentionOptions structured{.mask = nn::causal(6) & nn::window(3) & !nn::padding(lengths)};
  const nn::AttentionOptions dense{.mask = nn::Mask((nn::causal(6) & nn::window(3)).to_tensor(6, 6)) &
                                           !nn::padding(lengths)};
  for (const bool fused : {false, true}) {
    const tg::Tensor expected = attend(in, options, fused).output;
    EXPECT_TRUE(tg::equal(attend(in, structured, fused).output, expected));
    EXPECT_TRUE(tg::allclose(attend(in, dense, fused).output, expected, 0, 1e-13));
  }
}

TEST(AttentionOptionsTest, WeightsOfPartsOfAFusedResultAreDifferentiable) {
  tg::Tensors in = operands(5, 6, 2);
  for (tg::Tensor& x : in) x.requires_grad_();
  tg::Tensor bias = tg::randn({5, 6}, tg::float64).requires_grad_();
  const nn::AttentionOptions options{.bias = bias, .is_causal = true, .dropout_p = 0.4, .enable_gqa = true};
  const auto gradients = [&](bool fused) {
    const tg::Tensor part = attend(in, options, fused).weights_of(1, 3, 1, 2);
    EXPECT_EQ(part.shape(), (tg::Shape{2, 6}));
    return tg::autograd::grad({part.pow(2).sum()}, {in[0], in[1], bias});
  };
  const tg::Tensors of_part = gradients(true), of_all = gradients(false);
  for (std::size_t i = 0; i < of_part.size(); ++i) EXPECT_TRUE(tg::allclose(of_part[i], of_all[i], 0, 1e-13)) << i;
}

TEST(AttentionOptionsTest, WeightsOfEveryRank) {
  for (const tg::Shape& items : {tg::Shape{}, tg::Shape{3}, tg::Shape{2, 3}, tg::Shape{2, 2, 3}}) {
    const auto draw = [&](std::int64_t length) {
      tg::Shape shape = items;
      shape.push_back(length);
      shape.push_back(2);
      return tg::randn(shape, tg::float64);
    };
    const tg::Tensor q = draw(4), k = draw(5), v = draw(5);
    const auto whole = nn::scaled_dot_product_attention(q, k, v);
    const auto fused = nn::scaled_dot_product_attention(q, k, v, {.need_weights = false});
    const std::int64_t heads = items.rank() > 1 ? 3 : 1, batches = items.numel() / heads;
    const tg::Tensor expected = whole.weights.reshape({batches, heads, 4, 5});
    for (std::int64_t b = 0; b < batches; ++b)
      for (std::int64_t h = 0; h < heads; ++h) {
        const tg::Tensor rows = expected.select(0, b).select(0, h).slice(0, 1, 4);
        EXPECT_TRUE(tg::equal(whole.weights_of(b, h, 1, 3), rows));
        EXPECT_TRUE(tg::allclose(fused.weights_of(b, h, 1, 3), rows, 0, 1e-14));
      }
    for (const auto& result : {whole, fused}) {
      EXPECT_EQ(result.weights_of(0, 0, 4, 0).shape(), (tg::Shape{0, 5}));
      EXPECT_THROW(result.weights_of(batches, 0, 0, 1), tg::IndexError);
      EXPECT_THROW(result.weights_of(-1, 0, 0, 1), tg::IndexError);
      EXPECT_THROW(result.weights_of(0, heads, 0, 1), tg::IndexError);
      EXPECT_THROW(result.weights_of(0, 0, 3, 2), tg::IndexError);
      EXPECT_THROW(result.weights_of(0, 0, 0, -1), tg::IndexError);
    }
  }
  EXPECT_THROW(nn::AttentionResult().weights_of(0, 0, 0, 1), tg::ValueError);
}

/// One query of many heads reads a key that nobody copies.
TEST(AttentionOptionsTest, GroupedHeadsAreRepeatedHeads) {
  tg::Tensors in = operands(5, 6, 2);
  for (tg::Tensor& x : in) x.requires_grad_();
  const auto repeated = [](const tg::Tensor& x) {
    return x.unsqueeze(2).expand({kBatch, 2, 2, x.size(2), x.size(3)}).reshape({kBatch, 4, x.size(2), x.size(3)});
  };
  const tg::Tensor head_mask = tg::gt(tg::rand({kHeads, 5, 6}), 0.3);
  for (const bool fused : {false, true}) {
    const tg::Tensor grouped = attend(in, {.mask = head_mask, .enable_gqa = true}, fused).output;
    const tg::Tensor plain = attend({in[0], repeated(in[1]), repeated(in[2])}, {.mask = head_mask}, fused).output;
    EXPECT_TRUE(tg::allclose(grouped, plain, 0, 1e-14));
    const tg::Tensors a = tg::autograd::grad({grouped.pow(2).sum()}, in),
                      b = tg::autograd::grad({plain.pow(2).sum()}, in);
    for (std::size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(tg::allclose(a[i], b[i], 0, 1e-13)) << i;
  }
}

TEST(AttentionOptionsTest, WhatIsHiddenLeaksIntoNothing) {
  for (const Hiding& way : ways_to_hide())
    for (const bool fused : {false, true})
      for (const bool create_graph : {false, true})
        for (const double poison : {kNan, kInfinity, -kInfinity}) {
          const auto gradients = [&](double number) {
            tg::manual_seed(6);
            const auto with_hidden = [&] {
              const tg::Tensor hidden = tg::full({1, 2}, number, tg::float64), seen = tg::randn({3, 2}, tg::float64);
              return tg::cat(way.last ? tg::Tensors{seen, hidden} : tg::Tensors{hidden, seen}).requires_grad_();
            };
            const tg::Tensor k = with_hidden(), v = with_hidden();
            const tg::Tensors in = {tg::randn({2, 2}, tg::float64).requires_grad_(), k, v};
            const tg::Tensor output = attend(in, way.options, fused).output;
            tg::Tensors result = tg::autograd::grad({output.pow(2).sum()}, in, {.create_graph = create_graph});
            if (create_graph) {
              tg::Tensor sum = tg::zeros({}, tg::float64);
              for (const tg::Tensor& g : result) sum = sum + g.pow(2).sum();
              result = tg::autograd::grad({sum}, in);
            }
            result.push_back(output);
            return result;
          };
          const tg::Tensors clean = gradients(0.7), poisoned = gradients(poison);
          for (std::size_t i = 0; i < clean.size(); ++i)
            EXPECT_TRUE(tg::allclose(poisoned[i], clean[i], 0, 1e-13))
                << way.name << ", " << poison << (fused ? ", fused" : "") << (create_graph ? ", second order, " : ", ")
                << i;
        }
}

/// NaN in a query, a key or a value that is attended to is seen in the same places on both paths.
TEST(AttentionOptionsTest, WhatIsAttendedToIsNotHidden) {
  const nn::AttentionOptions all_options[] = {
      {},
      {.is_causal = true},
      {.window = 1},
      {.key_lengths = tg::tensor({4, 3})},
      {.mask = tg::tensor({{1, 1, 0, 1}, {0, 0, 0, 0}, {1, 0, 1, 1}, {0, 1, 1, 1}})}};
  for (std::size_t option = 0; option < std::size(all_options); ++option)
    for (std::size_t poisoned = 0; poisoned < 3; ++poisoned) {
      const auto run = [&](bool fused) {
        tg::manual_seed(7);
        tg::Tensors in;
        for (std::size_t i = 0; i < 3; ++i) {
          const tg::Tensor bad =
              tg::logical_and(tg::eq(tg::arange(4), 2), i == poisoned ? tg::ones({1}) : tg::zeros({1}));
          in.push_back(tg::where(bad.unsqueeze(1), kNan, tg::randn({2, 4, 2}, tg::float64)).detach().requires_grad_());
        }
        const tg::Tensor output = attend(in, all_options[option], fused).output;
        tg::Tensors result = tg::autograd::grad({output.sum()}, in);
        result.push_back(output.detach());
        return result;
      };
      const tg::Tensors composed = run(false), fused = run(true);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(tg::equal(tg::isnan(fused[i]), tg::isnan(composed[i]))) << option << ", " << poisoned << ", " << i;
        EXPECT_TRUE(tg::allclose(tg::where(tg::isnan(fused[i]), 0.0, fused[i]),
                                 tg::where(tg::isnan(composed[i]), 0.0, composed[i])));
      }
      EXPECT_TRUE(tg::any(tg::isnan(fused[3])).item()) << option << ", " << poisoned;
    }
}

TEST(AttentionOptionsTest, NoMatrixOfScoresIsMade) {
  constexpr std::int64_t kLength = 16'384, kBytes = 4, kWidth = 4;
  const auto bias = [](const tg::Shape& shape) { return tg::randn(shape).requires_grad_(); };
  const std::pair<const char*, nn::AttentionOptions> choices[] = {
      {"causal", {.is_causal = true}},
      {"window", {.window = 100}},
      {"key lengths", {.key_lengths = tg::tensor(2000)}},
      {"structured mask", {.mask = nn::causal(kLength) & nn::window(64) & !nn::padding(tg::tensor(9000))}},
      {"bias of keys", {.bias = bias({1, kLength}), .window = 300}},
      {"bias of queries, dropout", {.bias = bias({kLength, 1}), .is_causal = true, .window = 50, .dropout_p = 0.1}}};
  for (const auto& [name, options] : choices) {
    tg::Tensors in;
    for (int i = 0; i < 3; ++i) in.push_back(tg::randn({1, 1, kLength, kWidth}).requires_grad_());
    const std::int64_t before = tg::memory::current();
    tg::memory::reset_peak();
    const auto result = attend(in, options, true);
    result.output.sum().backward();
    EXPECT_EQ(result.weights_of(0, 0, kLength - 3, 2).shape(), (tg::Shape{2, kLength}));
    EXPECT_TRUE(in[0].grad().defined() && in[2].grad().defined());
    EXPECT_LT(tg::memory::peak() - before, kLength * kLength * kBytes / 64) << name;
  }
}

/// A mask of blocks along the diagonal takes a small part of the time of one that allows as much as attention can hold.
TEST(AttentionOptionsTest, BlocksThatAMaskEmptiesAreNotComputed) {
  constexpr std::int64_t kLength = 4096, kBlock = 256;
  tg::Tensor x = tg::randn({kLength, 32}).requires_grad_();
  const tg::Tensor block = tg::floor(tg::arange(kLength, tg::float64) / kBlock);
  const auto seconds = [&](const tg::Tensor& mask) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      nn::scaled_dot_product_attention(x, x, x, {.mask = mask, .need_weights = false}).output.sum().backward();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  };
  const tg::Tensor blocks = tg::eq(tg::unsqueeze(block, 1), block), all = tg::ones({kLength, kLength}, tg::boolean);
  EXPECT_LT(seconds(blocks), seconds(all) / 2);
}

/// All pairs of so many would take minutes; those of the window take a fraction of a second.
TEST(AttentionOptionsTest, TilesOutsideOfTheWindowAreNotComputed) {
  constexpr std::int64_t kLength = 100'000;
  tg::Tensor x = tg::randn({kLength, 2}).requires_grad_();
  const auto begin = std::chrono::steady_clock::now();
  for (const nn::AttentionOptions& options :
       {nn::AttentionOptions{.window = nn::Window(30, 0), .need_weights = false},
        nn::AttentionOptions{.need_weights = false, .key_lengths = tg::tensor(100)}})
    nn::scaled_dot_product_attention(x, x, x, options).output.sum().backward();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}
