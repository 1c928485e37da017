// The algebra of masks: what each allows, what stays structure, what attention makes of it, errors and pictures.
#include <functional>

#include <autograd/expectations.hpp>

using namespace tapegrad;
using expectations::expect_throws;
using nn::Mask;

namespace {

using Allows = std::function<bool(std::int64_t item, std::int64_t i, std::int64_t j)>;

/// `mask` allows exactly the pairs that `allows` does, item by item.
void expect_allows(const Mask& mask, std::int64_t items, std::int64_t queries, std::int64_t keys,
                   const Allows& allows) {
  const Tensor got = mask.to_tensor(queries, keys);
  ASSERT_EQ(got.dtype(), boolean);
  const auto values = got.expand({items, queries, keys}).to_vector<bool>();
  std::size_t at = 0;
  for (std::int64_t n = 0; n < items; ++n)
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j, ++at)
        ASSERT_EQ(values[at], allows(n, i, j)) << mask.to_string() << "\nat " << n << ", " << i << ", " << j;
}

bool sees(const Tensor& mask, std::initializer_list<std::int64_t> at) {
  Tensor x = mask;
  for (const std::int64_t index : at) x = x.select(0, index);
  return x.item() != 0;
}

}  // namespace

TEST(MaskTest, WhatEachAllows) {
  for (const auto& [queries, keys] : {std::pair{5, 5}, {3, 5}, {1, 5}, {0, 5}}) {
    const std::int64_t shift = keys - queries;
    expect_allows(nn::causal(5), 1, queries, keys, [&](auto, auto i, auto j) { return j <= i + shift; });
    expect_allows(nn::window(1), 1, queries, keys, [&](auto, auto i, auto j) { return std::abs(i + shift - j) <= 1; });
    expect_allows(nn::window(2, 0), 1, queries, keys,
                  [&](auto, auto i, auto j) { return j <= i + shift && j >= i + shift - 2; });
    const std::int64_t lengths[] = {3, 0, 5};
    expect_allows(nn::padding({3, 0, 5}), 3, queries, keys, [&](auto n, auto, auto j) { return j >= lengths[n]; });
    expect_allows(!nn::padding({3, 0, 5}, 5), 3, queries, keys, [&](auto n, auto, auto j) { return j < lengths[n]; });
    expect_allows(Mask(), 1, queries, keys, [](auto, auto, auto) { return true; });
  }
  expect_allows(nn::window(1), 1, 4, 2, [](auto, auto i, auto j) { return std::abs(i - 2 - j) <= 1; });
  expect_allows(nn::window(0, std::numeric_limits<std::int64_t>::max()), 1, 3, 3,
                [](auto, auto i, auto j) { return j >= i; });
  expect_allows(tensor({{0.0, -2.0}, {0.5, 0.0}}), 1, 2, 2, [](auto, auto i, auto j) { return i != j; });
}

TEST(MaskTest, AndOrNotAreThoseOfTheTensors) {
  manual_seed(1);
  const Mask masks[] = {nn::causal(5),
                        nn::window(1),
                        nn::window(0, 2),
                        nn::padding({2, 5, 0}),
                        !nn::padding({4, 1, 3}, 5),
                        gt(rand({3, 4, 5}), 0.5),
                        gt(rand({5}), 0.5),
                        Mask(nn::MaskParts{.is_causal = true, .window = 1, .allowed = gt(rand({4, 1}), 0.3)})};
  const auto dense = [](const Mask& mask) { return mask.to_tensor(4, 5); };
  for (const Mask& a : masks) {
    EXPECT_TRUE(equal(dense(!a), logical_not(dense(a)))) << a.to_string();
    EXPECT_TRUE(equal(dense(!!a), dense(a))) << a.to_string();
    for (const Mask& b : masks) {
      EXPECT_TRUE(equal(dense(a & b), logical_and(dense(a), dense(b)))) << a.to_string() << "\n" << b.to_string();
      EXPECT_TRUE(equal(dense(a | b), logical_or(dense(a), dense(b)))) << a.to_string() << "\n" << b.to_string();
      EXPECT_EQ(dense(a & !(a | b)).to(int64).sum().item(), 0) << a.to_string() << "\n" << b.to_string();
    }
  }
}

TEST(MaskTest, AnIntersectionKeepsItsStructure) {
  const nn::MaskParts parts =
      (nn::causal(8) & nn::window(6, 3) & !nn::padding({5, 8}) & nn::window(4) & !nn::padding({7, 2}, 8))
          .parts({2, 3, 8});
  EXPECT_TRUE(parts.is_causal);
  EXPECT_EQ(parts.window, nn::Window(4, 3));
  EXPECT_TRUE(equal(parts.key_lengths, tensor({5, 2})));
  EXPECT_FALSE(parts.allowed.defined());

  const Tensor given = ones({8, 8});
  EXPECT_EQ(Mask(given).parts({8, 8}).allowed.body(), given.body());
  EXPECT_TRUE((nn::causal(8) & given).parts({8, 8}).is_causal);
  for (const Mask& mask : {nn::causal(8) | nn::window(1), !nn::causal(8), nn::padding({5, 8})}) {
    const nn::MaskParts dense = mask.parts({2, 8, 8});
    EXPECT_TRUE(dense.allowed.defined() && !dense.is_causal && !dense.window && !dense.key_lengths.defined());
  }
}

TEST(MaskTest, UndefinedAllowsEverything) {
  const Mask none, causal = nn::causal(3);
  EXPECT_FALSE(none.defined() || Mask(Tensor()).defined() || Mask(nn::MaskParts()).defined());
  EXPECT_TRUE(equal((none & causal).to_tensor(3, 3), causal.to_tensor(3, 3)));
  EXPECT_TRUE(equal((causal & none).to_tensor(3, 3), causal.to_tensor(3, 3)));
  EXPECT_FALSE((none | causal).defined() || (causal | none).defined() || none.with_head_dimension().defined());
  EXPECT_THROW(!none, ValueError);
}

TEST(MaskTest, AttentionSeesWhatItsTensorAllows) {
  manual_seed(2);
  const Tensor q = randn({3, 4, 8}, float64), k = randn({3, 6, 8}, float64), v = randn({3, 6, 5}, float64);
  for (const Mask& mask :
       {nn::causal(6), nn::window(2), nn::causal(6) & nn::window(1) & !nn::padding({6, 2, 0}), nn::padding({3, 5, 1}),
        nn::causal(6) | nn::padding({3, 5, 1}), gt(rand({4, 6}), 0.3) & !nn::window(1)}) {
    const Tensor allowed = mask.to_tensor(4, 6);
    const auto [output, weights] = nn::scaled_dot_product_attention(q, k, v, mask);
    EXPECT_TRUE(allclose(output, nn::scaled_dot_product_attention(q, k, v, allowed).output, 0, 1e-14));
    EXPECT_TRUE(equal(where(allowed, 0.0, weights), zeros({3, 4, 6}, float64))) << mask.to_string();
    const auto fused = nn::scaled_dot_product_attention(q, k, v, {.mask = mask, .need_weights = false});
    EXPECT_TRUE(allclose(fused.output, output, 0, 1e-13)) << mask.to_string();
  }
}

TEST(MaskTest, AStructureCostsNoMemory) {
  constexpr std::int64_t kLength = 16384, kBytes = 4;
  manual_seed(5);
  Tensor x = randn({1, kLength, 8}).requires_grad_();
  const Mask mask = nn::causal(kLength) & nn::window(64) & !nn::padding({kLength - 5});
  const std::int64_t before = memory::current();
  memory::reset_peak();
  nn::scaled_dot_product_attention(x, x, x, {.mask = mask, .need_weights = false}).output.sum().backward();
  EXPECT_LT(memory::peak() - before, kLength * kLength * kBytes / 50);
}

TEST(MaskTest, ABlankRowIsZeroNotUniform) {
  const Tensor x = ones({2, 3, 4}), pairwise = nn::create_padding_mask({2, 3}, 3);
  const auto [output, weights] = nn::scaled_dot_product_attention(x, x, x, pairwise);
  EXPECT_TRUE(equal(weights.select(0, 0), tensor({{0.5, 0.5, 0.0}, {0.5, 0.5, 0.0}, {0.0, 0.0, 0.0}})));
  EXPECT_TRUE(equal(output.select(0, 0).select(0, 2), zeros({4})));
  // Padded keys alone: the padded query still looks at the real tokens, as with PyTorch's key_padding_mask.
  const auto keys_only = nn::scaled_dot_product_attention(x, x, x, !nn::padding({2, 3}));
  EXPECT_TRUE(equal(keys_only.weights.select(0, 0).select(0, 2), tensor({0.5, 0.5, 0.0})));
}

TEST(MaskTest, RowIsQueryColumnIsKey) {
  const Tensor allowed = tensor({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}), x = eye(3);
  const auto [output, weights] = nn::scaled_dot_product_attention(x, x, x, allowed);
  EXPECT_TRUE(equal(weights, allowed));
  EXPECT_TRUE(equal(output, allowed));
}

TEST(MaskTest, HeadsShareAMask) {
  manual_seed(3);
  nn::MultiHeadAttention mha(8, 2);
  const Tensor x = randn({2, 5, 8});
  const Mask mask = nn::causal(5) & !nn::padding({3, 5});
  EXPECT_EQ(mask.with_head_dimension().to_tensor(5, 5).shape(), (Shape{2, 1, 5, 5}));
  EXPECT_EQ((mask | ones({2, 5, 5})).with_head_dimension().to_tensor(5, 5).shape(), (Shape{2, 1, 5, 5}));
  EXPECT_EQ(Mask(ones({2, 3, 5, 5})).with_head_dimension().to_tensor(5, 5).shape(), (Shape{2, 3, 5, 5}));
  const Tensor y = mha(x, mask);
  EXPECT_TRUE(allclose(y, mha(x, mask.to_tensor(5, 5)), 0, 1e-6));
  EXPECT_TRUE(allclose(y, mha(x, {.key_padding_mask = tensor({{1, 1, 1, 0, 0}, {1, 1, 1, 1, 1}}), .is_causal = true}),
                       0, 1e-6));
  EXPECT_FALSE(sees(ne(mha.attention_weights(x, mask), 0), {0, 1, 4, 3}));
}

TEST(MaskTest, Mistakes) {
  Tensor learned = ones({2, 2}).requires_grad_();
  expect_throws<GradError>([&] { Mask{learned}; }, {"mask has no gradient", "bias"});
  expect_throws<GradError>([&] { Mask{learned * 2}; }, {"mask has no gradient"});
  expect_throws<ValueError>([] { nn::window(-1); }, {"window", "-1"});
  expect_throws<ValueError>([] { nn::window(1, -2); }, {"right", "-2"});
  expect_throws<ValueError>([] { nn::causal(-1); }, {"causal", "-1"});
  expect_throws<ValueError>([] { nn::padding({1, 7}, 4); }, {"padding", "[0, 4]", "lengths[1] = 7"});
  expect_throws<ValueError>([] { nn::padding({-1}); }, {"padding", "lengths[0] = -1"});
  expect_throws<DtypeError>([] { nn::padding(ones({2})); }, {"key lengths must be int64", "float32"});
  expect_throws<ShapeError>([] { nn::causal(4).to_tensor(4, 5); }, {"causal", "4 keys", "4 queries and 5 keys"});
  expect_throws<ShapeError>([] { nn::causal(4).to_tensor(5, 4); }, {"5 queries and 4 keys"});
  expect_throws<ShapeError>([] { nn::padding({2}, 4).to_tensor(5, 5); }, {"padding", "4 keys", "5 keys"});
  expect_throws<ValueError>([] { nn::padding({2, 6}).to_tensor(5, 5); }, {"[0, 5]", "lengths[1] = 6"});
  expect_throws<ShapeError>([] { (nn::causal(4) & ones({3, 3})).to_tensor(4, 4); }, {"[4, 4]", "[3, 3]"});
  expect_throws<ShapeError>([] { nn::padding({2, 3}).parts({3, 4, 4}); }, {"key lengths", "[3, 4, 4]", "[2]"});
  expect_throws<ShapeError>([] { Mask(ones({4, 2, 3, 3})).parts({2, 3, 3}); }, {"[2, 3, 3]", "[4, 2, 3, 3]"});
  expect_throws<ShapeError>([] { Mask().parts({3}); }, {"[..., queries, keys]", "[3]"});
  expect_throws<ValueError>([] { Mask().to_tensor(-1, 2); }, {"queries", "-1"});
  const Tensor x = ones({2, 3, 4});
  EXPECT_THROW(nn::scaled_dot_product_attention(x, x, x, nn::causal(4)), ShapeError);
  EXPECT_THROW(nn::scaled_dot_product_attention(x, x, x, !nn::padding({3, 4})), ValueError);
  EXPECT_THROW(nn::scaled_dot_product_attention(x, x, x, ones({4, 2, 3, 3})), ShapeError);

  expect_throws<ValueError>(
      [] {
        nn::create_padding_mask({3, 5}, 4);
      },
      {"create_padding_mask", "lengths[1] = 5", "[0, 4]"});
  expect_throws<ValueError>([] { nn::create_padding_mask({-2}, 4); }, {"lengths[0] = -2"});
  EXPECT_EQ(nn::create_padding_mask({}, 4).shape(), (Shape{0, 4, 4}));
}

TEST(MaskTest, IsDrawn) {
  EXPECT_EQ(fmt::format("{}", nn::causal(3)), "mask: causal(3), 3 queries x 3 keys\n█··\n██·\n███");
  EXPECT_EQ((nn::causal(3) & nn::window(1) & !nn::padding({2, 3})).to_string(2, 3),
            "mask: causal(3) & window(1, 1) & !padding([2, 3]), 2 queries x 3 keys, the first item of [2]\n██·\n·█·");
  EXPECT_EQ(((nn::window(0) | nn::padding({1})) & ones({2, 2})).to_string(),
            "mask: (window(0, 0) | padding([1])) & tensor [2, 2], 2 queries x 2 keys\n██\n·█");
  EXPECT_EQ((!nn::causal(2)).to_string(), "mask: !(causal(2)), 2 queries x 2 keys\n·█\n··");
  EXPECT_EQ(Mask().to_string(), "mask: everything is allowed");
  EXPECT_EQ(nn::causal(0).to_string(), "mask: causal(0), 0 queries x 0 keys");
  EXPECT_NE(nn::padding(zeros({9}, int64)).to_string().find("padding(lengths [9])"), std::string::npos);

  const std::string large = (nn::causal(16384) & nn::window(4096, 0)).to_string();
  const auto lines = std::count(large.begin(), large.end(), '\n');
  EXPECT_EQ(lines, 32);
  EXPECT_NE(large.find("\n▒·"), std::string::npos);        // the diagonal goes through the block
  EXPECT_NE(large.find("\n██▒·"), std::string::npos);      // below it all is allowed
  EXPECT_NE(large.find("·▒███████▒"), std::string::npos);  // and nothing beyond the window
  const std::string endless = nn::causal(std::numeric_limits<std::int64_t>::max()).to_string();
  EXPECT_EQ(std::count(endless.begin(), endless.end(), '\n'), 32);
  EXPECT_NE(endless.find("\n██▒·"), std::string::npos);
  const Tensor odd = gt(rand({33, 70}), 2.0);
  EXPECT_NE(Mask(odd).to_string().find("\n························"), std::string::npos);
}

TEST(MaskTest, ATensorToBeAddedIsNoMask) {
  const Tensor future = triu(ones({3, 3}), 1);
  expect_throws<ValueError>(
      [&] {
        Mask(masked_fill(zeros({3, 3}), future, -INFINITY));
      },
      {"got an infinity or NaN in float32 [3, 3]", "is passed as bias"});
  Mask(full({3, 3}, 0.5));
}
