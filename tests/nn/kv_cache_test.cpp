#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>

#include "autograd/expectations.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
using tapegrad::expectations::expect_throws;

namespace {

/// Gives the tokens of x to the layer in pieces of these lengths, and then one by one; every output must be what the
/// whole text gives.
template <class Layer>
void expect_the_uncached(const Layer& layer, const tg::Tensor& x, const std::vector<std::int64_t>& pieces,
                         nn::KVCache cache = nn::KVCache()) {
  const tg::NoGradGuard no_grad;
  const tg::Tensor expected = layer(x, {.is_causal = true});
  const double tolerance = x.dtype() == tg::float32 ? 1e-6 : 1e-14;
  for (std::size_t step = 0; cache.length() < x.size(1); ++step) {
    const std::int64_t first = cache.length(), count = step < pieces.size() ? pieces[step] : 1;
    const tg::Tensor y = layer(x.slice(1, first, first + count), cache);
    ASSERT_EQ(cache.length(), first + count);
    ASSERT_TRUE(tg::allclose(y, expected.slice(1, first, first + count), tolerance, tolerance)) << "from " << first;
  }
}

std::vector<nn::MultiHeadAttentionOptions> variants() {
  return {{},
          {.bias = false, .num_kv_heads = 2},
          {.num_kv_heads = 1, .qk_norm = true},
          {.window = 3},
          {.window = nn::Window(0, 2)},
          {.rotary = true},
          {.num_kv_heads = 2, .rotary = true, .rotary_base = 500.0, .qk_norm = true, .window = 5}};
}

}  // namespace

TEST(KVCacheTest, CachedIsUncachedAtEveryStep) {
  tg::manual_seed(4);
  for (const tg::Dtype dtype : {tg::float32, tg::float64})
    for (const nn::MultiHeadAttentionOptions& options : variants()) {
      nn::MultiHeadAttention mha(16, 4, options);
      mha.to(dtype);
      for (const std::int64_t batch : {1, 3}) {
        const tg::Tensor x = tg::randn({batch, 40, 16}, dtype);
        expect_the_uncached(mha, x, {});
        expect_the_uncached(mha, x, {5, 1, 1, 7, 1, 2});
        expect_the_uncached(mha, x, {40});
        expect_the_uncached(mha, x, {9, 1, 9}, nn::KVCache(40));
      }
    }
}

TEST(KVCacheTest, SoItIsInABlock) {
  nn::TransformerBlock block(16, 4);
  expect_the_uncached(block, tg::randn({2, 20, 16}), {6, 1, 1, 4});
  block.to(tg::float64);
  expect_the_uncached(block, tg::randn({2, 20, 16}, tg::float64), {6, 1, 1, 4});
}

TEST(KVCacheTest, TokensAreWrittenInPlace) {
  nn::KVCache cache(64);
  const auto token = [] { return tg::randn({2, 4, 1, 8}); };
  const float* start = cache.append(token(), token()).keys.data<float>();
  for (int i = 1; i < 64; ++i) {
    const nn::KVCache::Entries all = cache.append(token(), token());
    EXPECT_EQ(all.keys.data<float>(), start);
    EXPECT_EQ(all.values.shape(), (tg::Shape{2, 4, i + 1, 8}));
  }
  nn::KVCache growing;
  int moves = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t before = growing.capacity();
    growing.append(token(), token());
    moves += growing.capacity() != before;
  }
  EXPECT_LE(moves, 8);
  EXPECT_LT(growing.capacity(), 2200);
}

TEST(KVCacheTest, AWindowBoundsTheMemory) {
  const tg::NoGradGuard no_grad;
  nn::MultiHeadAttention mha(8, 2, {.window = 10});
  nn::KVCache growing, fixed(11);
  mha(tg::randn({1, 100, 8}), growing);
  for (int i = 0; i < 500; ++i) {
    const tg::Tensor x = tg::randn({1, 1, 8});
    mha(x, growing);
    mha(x, fixed);
  }
  EXPECT_EQ(growing.length(), 600);
  EXPECT_LE(growing.capacity(), 32);
  EXPECT_EQ(fixed.length(), 500);
  EXPECT_EQ(fixed.capacity(), 11);
}

TEST(KVCacheTest, ACopyIsAFork) {
  const tg::NoGradGuard no_grad;
  nn::MultiHeadAttention mha(8, 2);
  const tg::Tensor start = tg::randn({1, 4, 8}), texts[] = {tg::randn({1, 3, 8}), tg::randn({1, 3, 8})};
  nn::KVCache caches[2] = {nn::KVCache(8), nn::KVCache()};
  mha(start, caches[0]);
  caches[1] = caches[0];
  for (std::int64_t i = 0; i < 3; ++i)
    for (const int text : {0, 1}) {
      const tg::Tensor expected = mha(tg::cat({start, texts[text].slice(1, 0, i + 1)}, 1), {.is_causal = true});
      const tg::Tensor got = mha(texts[text].slice(1, i, i + 1), caches[text]);
      EXPECT_TRUE(tg::allclose(got, expected.slice(1, 4 + i, 5 + i), 1e-6, 1e-6)) << text << " " << i;
    }
}

TEST(KVCacheTest, ResetStartsANewText) {
  nn::MultiHeadAttention mha(8, 2);
  nn::KVCache cache(6);
  for (const std::int64_t batch : {2, 2, 5}) {
    cache.reset();
    EXPECT_EQ(cache.length(), 0);
    expect_the_uncached(mha, tg::randn({batch, 6, 8}), {2}, cache);
    const tg::NoGradGuard no_grad;
    mha(tg::randn({batch, 3, 8}), cache);
  }
  const tg::NoGradGuard no_grad;
  nn::KVCache empty;
  EXPECT_EQ(mha(tg::ones({2, 0, 8}), empty).shape(), (tg::Shape{2, 0, 8}));
  EXPECT_EQ(empty.length(), 0);
}

TEST(KVCacheTest, Mistakes) {
  nn::MultiHeadAttention mha(8, 2);
  nn::KVCache cache(4);
  expect_throws<tg::GradError>([&] { mha(tg::ones({1, 2, 8}), cache); }, {"MultiHeadAttention", "NoGradGuard"});
  EXPECT_EQ(cache.length(), 0);
  const tg::NoGradGuard no_grad;
  const tg::Tensor expected = mha(tg::ones({1, 3, 8}), {.is_causal = true}).slice(1, 2, 3);
  mha(tg::ones({1, 2, 8}), cache);
  expect_throws<tg::ShapeError>(
      [&] {
        mha(tg::ones({2, 1, 8}), cache);
      },
      {"KVCache", "[1, 2, tokens, 4]", "[2, 2, 1, 4]"});
  expect_throws<tg::ShapeError>([&] { mha(tg::ones({1, 1, 6}), cache); }, {"MultiHeadAttention", "8", "[1, 1, 6]"});
  expect_throws<tg::ShapeError>(
      [&] {
        nn::MultiHeadAttention(8, 4)(tg::ones({1, 1, 8}), cache);
      },
      {"KVCache", "[1, 4, 1, 2]"});
  expect_throws<tg::ValueError>([&] { mha(tg::ones({1, 3, 8}), cache); }, {"KVCache", "at most 4", "3", "2"});
  nn::MultiHeadAttention wide(8, 2);
  wide.to(tg::float64);
  expect_throws<tg::DtypeError>(
      [&] {
        wide(tg::ones({1, 1, 8}, tg::float64), cache);
      },
      {"KVCache", "float32", "float64"});
  EXPECT_EQ(cache.length(), 2);
  EXPECT_TRUE(tg::allclose(mha(tg::ones({1, 1, 8}), cache), expected, 1e-6, 1e-6));
  expect_throws<tg::ValueError>([] { nn::KVCache(0); }, {"KVCache", "0"});
}
