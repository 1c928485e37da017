#include <array>
#include <cmath>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tapegrad/core/error.hpp>
#include <tapegrad/core/philox.hpp>
#include <tapegrad/core/random.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words rounds(Words c, std::uint32_t k0, std::uint32_t k1) {
  philox_rounds(c[0], c[1], c[2], c[3], k0, k1);
  return c;
}

template <class T>
std::vector<T> values(const Array& array) {
  return std::vector<T>(array.data<T>(), array.data<T>() + array.numel());
}

TEST(PhiloxTest, PublishedAnswers) {  // kat_vectors of Random123
  EXPECT_EQ(philox(0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(rounds({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(rounds({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, BlocksAreCountersSideBySide) {
  const std::uint64_t first = (std::uint64_t{1} << 32) - 5;  // the carry into the second word is inside the block
  const PhiloxBlock block(0x123456789abcdef0, first);
  for (int i = 0; i < PhiloxBlock::kCounters; ++i)
    for (int j = 0; j < 4; ++j)
      EXPECT_EQ(block.words[j][i], philox(0x123456789abcdef0, first + static_cast<std::uint64_t>(i))[j]);
}

TEST(RandomTest, UniformFollowsItsDefinition) {
  manual_seed(7);
  const std::vector<float> floats = values<float>(random_uniform({3, 67}, float32));
  EXPECT_EQ(random_state().position, 51u);  // 201 numbers, four to a counter
  for (std::size_t i = 0; i < floats.size(); ++i)
    EXPECT_EQ(floats[i], static_cast<float>(philox(7, i / 4)[i % 4] >> 8) / 16777216.0f);
  const std::vector<double> doubles = values<double>(random_uniform({5}, float64));
  const Words words = philox(7, 51);
  EXPECT_EQ(doubles[1], static_cast<double>((words[2] | std::uint64_t{words[3]} << 32) >> 11) / 9007199254740992.0);
}

TEST(RandomTest, StateRestartsTheStream) {
  manual_seed(3);
  random_normal({10}, float32);
  const RandomState state = random_state();
  const std::vector<double> first = values<double>(random_normal({33}, float64));
  set_random_state(state);
  EXPECT_EQ(values<double>(random_normal({33}, float64)), first);
  EXPECT_NE(values<double>(random_normal({33}, float64)), first);
}

TEST(RandomTest, EachThreadHasItsOwnGenerator) {
  manual_seed(99);
  const RandomState before = random_state();
  RandomState fresh;
  std::thread([&] {
    fresh = random_state();
    random_uniform({100}, float32);
  }).join();
  EXPECT_EQ(random_state(), before);
  EXPECT_NE(fresh, before);
}

TEST(RandomTest, NormalMoments) {
  manual_seed(1);
  for (Dtype dtype : {float32, float64}) {
    const Array array = random_normal({400000}, dtype).converted(float64);
    double sum = 0, squares = 0, fourth = 0, neighbours = 0;
    for (std::int64_t i = 0; i < array.numel(); ++i) {
      const double x = array.data<double>()[i];
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
      if (i > 0) neighbours += x * array.data<double>()[i - 1];
    }
    const double n = static_cast<double>(array.numel());
    EXPECT_NEAR(sum / n, 0, 0.01);
    EXPECT_NEAR(squares / n, 1, 0.01);
    EXPECT_NEAR(fourth / n, 3, 0.08);
    EXPECT_NEAR(neighbours / n, 0, 0.01);
  }
}

TEST(RandomTest, IntegersFillTheirRange) {
  manual_seed(5);
  std::vector<int> counts(7);
  for (std::int64_t value : values<std::int64_t>(random_integers(-3, 4, {70000}))) {
    ASSERT_TRUE(value >= -3 && value < 4);
    ++counts[static_cast<std::size_t>(value + 3)];
  }
  for (int count : counts) EXPECT_NEAR(count, 10000, 500);
  for (std::int64_t value : values<std::int64_t>(random_integers(INT64_MIN, INT64_MIN + 1, {9})))
    EXPECT_EQ(value, INT64_MIN);
  random_integers(INT64_MIN, INT64_MAX, {9});
}

TEST(RandomTest, SameForAnyNumberOfThreads) {
  const int before = num_threads();
  std::vector<std::vector<float>> normals;
  std::vector<std::vector<double>> uniforms;
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    manual_seed(11);
    normals.push_back(values<float>(random_normal({100003}, float32)));
    uniforms.push_back(values<double>(random_uniform({50001}, float64)));
    EXPECT_EQ(normals.back(), normals.front());
    EXPECT_EQ(uniforms.back(), uniforms.front());
  }
  set_num_threads(before);
}

TEST(RandomTest, RejectsIntegerDtypes) {
  EXPECT_THROW(random_uniform({2}, int64), DtypeError);
  EXPECT_THROW(random_normal({2}, boolean), DtypeError);
}

}  // namespace
}  // namespace tapegrad::core
