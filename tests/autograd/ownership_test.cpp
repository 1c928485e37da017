// What a function returns owns its values: nothing is lazy, nothing refers to what is gone.
#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;

// Mistakes that would change nothing, or another thing than what was meant, do not compile.
template <class T>
constexpr bool kAssignable = requires(T x) {
  tg::select(x, 0, 1) = x;
};
static_assert(!kAssignable<tg::Tensor> && std::is_assignable_v<tg::Tensor&, tg::Tensor>);
template <class T>
constexpr bool kSums = requires(T x) {
  tg::sum(x, true);
};
template <class T>
constexpr bool kDeviates = requires(T x) {
  tg::std(x, {1}, true);
};
template <class T>
constexpr bool kVaries = requires(T x) {
  tg::var(x, 1, true);
};
template <class T>
constexpr bool kHasNorms = requires(T x) {
  tg::norm(x, {1}, true);
};
static_assert(!kSums<tg::Tensor> && !kDeviates<tg::Tensor> && !kVaries<tg::Tensor> && !kHasNorms<tg::Tensor>);

TEST(Ownership, AResultOutlivesAllThatItCameFrom) {
  const auto log_softmax_of_temporaries = [] {
    const tg::Tensor x = tg::tensor({{1.0, 2.0}, {3.0, 5.0}}, tg::float64);
    const auto shifted = x - tg::amax(x, 1, true);
    return shifted - tg::log(tg::sum(tg::exp(shifted), 1, true));
  };
  const auto kept = log_softmax_of_temporaries();
  const tg::Tensor other = tg::full({2, 2}, 7.0, tg::float64);  // takes the memory that has become free
  const tg::Tensor expected =
      tg::tensor({{-1.31326168752, -0.31326168752}, {-2.12692801104, -0.12692801104}}, tg::float64);
  EXPECT_TRUE(tg::allclose(kept, expected, 1e-10, 1e-10)) << kept.to_string() << other.to_string();
  const tg::Tensor view = tg::arange(6).reshape({2, 3}).transpose(0, 1).slice(0, 1, 3);
  EXPECT_EQ(view.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 4, 2, 5}));
}

TEST(Ownership, RandomNumbersAreDrawnOnce) {
  const tg::Tensor x = tg::randn({64}), weight = tg::nn::Linear(8, 8).weight();
  EXPECT_EQ(x.to_vector<double>(), x.to_vector<double>());
  EXPECT_TRUE(tg::equal(x + 0, x));
  EXPECT_TRUE(tg::equal(weight, weight.clone()));
}

TEST(Ownership, WhatIsMovedOutOfAnOperandIsAHandleOfItsOwn) {
  const tg::Tensor x = tg::full({2}, 7.0);
  tg::Tensors list;
  const auto handles = [&] { return x.body()->references.value(); };
  list.push_back(tg::Operand(x));
  EXPECT_EQ(handles(), 2u);
  {
    tg::Operand named(x);
    list.push_back(std::move(named));
  }
  EXPECT_EQ(handles(), 3u);
  {
    tg::Operand borrowed(x), own(borrowed);
    list.push_back(std::move(own));
    EXPECT_EQ(handles(), 4u);
  }
  list.clear();
  EXPECT_EQ(handles(), 1u);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{7, 7}));
}

TEST(Ownership, BracesAreShapesInFactoriesAndValuesInTensor) {
  EXPECT_EQ(tg::zeros({2, 3}).shape(), (tg::Shape{2, 3}));
  EXPECT_EQ(tg::randn({2, 3}).shape(), (tg::Shape{2, 3}));
  EXPECT_EQ(tg::tensor({2, 3}).shape(), (tg::Shape{2}));
  EXPECT_EQ(tg::tensor({2, 3}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 3}));
}
