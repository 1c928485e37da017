// First and second derivatives of attention, both paths, over the product of what is hidden, lengths, widths and
// grouping.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

struct Lengths {
  const char* name;
  std::int64_t queries, keys;
};
const Lengths all_lengths[] = {{"square", 3, 3}, {"more_keys", 2, 4}, {"more_queries", 4, 2}};

constexpr std::int64_t kBatch = 2, kHeads = 2, kWidth = 2;

/// Every third pair is blocked.
tg::Tensor checkered(const tg::Shape& shape) {
  std::vector<std::int64_t> allowed(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] = i % 3 != 1;
  return tg::from_vector(allowed, shape);
}

struct Hiding {
  const char* name;
  std::function<nn::AttentionOptions(const Lengths&)> options;
  bool has_bias = false;
};
const Hiding all_hidings[] = {
    {"nothing", [](const Lengths&) { return nn::AttentionOptions{}; }},
    {"causal", [](const Lengths&) { return nn::AttentionOptions{.is_causal = true}; }},
    {"boolean",
     [](const Lengths& l) {
       return nn::AttentionOptions{.mask = checkered({l.queries, l.keys})};
     }},
    {"batch",
     [](const Lengths& l) {
       return nn::AttentionOptions{.mask = checkered({kBatch, 1, l.queries, l.keys})};
     }},
    {"head",
     [](const Lengths& l) {
       return nn::AttentionOptions{.mask = checkered({kHeads, l.queries, l.keys})};
     }},
    {"blank_row",
     [](const Lengths& l) { return nn::AttentionOptions{.mask = tg::ne(tg::arange(l.queries), 1).unsqueeze(1)}; }},
    {"window", [](const Lengths&) { return nn::AttentionOptions{.window = nn::Window(1, 0)}; }},
    {"key_lengths",
     [](const Lengths&) {
       return nn::AttentionOptions{.key_lengths = tg::tensor({{2}, {1}}, tg::int64)};
     }},
    {"bias", [](const Lengths&) { return nn::AttentionOptions{}; }, true},
    {"everything",
     [](const Lengths& l) {
       return nn::AttentionOptions{.mask = checkered({kHeads, l.queries, l.keys}),
                                   .is_causal = true,
                                   .window = 2,
                                   .scale = 0.9,
                                   .key_lengths = tg::tensor({{2}, {1}}, tg::int64)};
     },
     true}};

void PrintTo(const Lengths& lengths, std::ostream* out) { *out << lengths.name; }
void PrintTo(const Hiding& hiding, std::ostream* out) { *out << hiding.name; }

using Parameters = std::tuple<Hiding, Lengths, bool, bool, bool>;

class AttentionGradcheck : public testing::TestWithParam<Parameters> {};

std::string name_of(const testing::TestParamInfo<Parameters>& info) {
  const auto& [hiding, lengths, wide_values, fused, grouped] = info.param;
  return std::string(hiding.name) + "_" + lengths.name + (wide_values ? "_wide" : "") +
         (fused ? "_fused" : "_composed") + (grouped ? "_grouped" : "");
}

}  // namespace

TEST_P(AttentionGradcheck, BothOrdersAreRight) {
  const auto& [hiding, lengths, wide_values, fused, grouped] = GetParam();
  tg::manual_seed(3);
  const auto draw = [](const tg::Shape& shape) { return tg::randn(shape, tg::float64); };
  const std::int64_t key_heads = grouped ? 1 : kHeads;
  tg::Tensors inputs = {draw({kBatch, kHeads, lengths.queries, kWidth}),
                        draw({kBatch, key_heads, lengths.keys, kWidth}),
                        draw({kBatch, key_heads, lengths.keys, wide_values ? kWidth + 1 : kWidth})};
  if (hiding.has_bias) inputs.push_back(draw({kHeads, lengths.queries, lengths.keys}));
  nn::AttentionOptions options = hiding.options(lengths);
  options.need_weights = !fused;
  options.enable_gqa = grouped;
  const auto attention = [&, has_bias = hiding.has_bias](const tg::Tensors& in) {
    nn::AttentionOptions now = options;
    if (has_bias) now.bias = in[3];
    const auto [output, weights] = nn::scaled_dot_product_attention(in[0], in[1], in[2], now);
    return weights.defined() ? tg::Tensors{output, weights} : tg::Tensors{output};
  };
  const auto first = tg::autograd::gradcheck(attention, inputs, {.atol = 1e-7, .rtol = 1e-6});
  EXPECT_TRUE(first) << first.to_string();
  const auto second = tg::autograd::gradgradcheck(attention, inputs, {.atol = 1e-6, .rtol = 1e-5});
  EXPECT_TRUE(second) << second.to_string();
}

INSTANTIATE_TEST_SUITE_P(All, AttentionGradcheck,
                         testing::Combine(testing::ValuesIn(all_hidings), testing::ValuesIn(all_lengths),
                                          testing::Bool(), testing::Bool(), testing::Bool()),
                         name_of);
