// The bridge to xtensor: which memory a view reaches, when it counts as writing, what expressions become.
#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>
#include <tapegrad/xtensor.hpp>

namespace tg = tapegrad;

namespace {

tg::Tensor counting(const tg::Shape& shape) { return tg::arange(shape.numel()).to(tg::float64).reshape(shape); }

template <class View>
void expect_like(const View& view, const tg::Tensor& tensor) {
  ASSERT_EQ(view.dimension(), static_cast<std::size_t>(tensor.rank()));
  const std::vector<double> expected = tensor.to_vector<double>();
  std::size_t i = 0;
  for (auto it = view.template cbegin<xt::layout_type::row_major>();
       it != view.template cend<xt::layout_type::row_major>(); ++it, ++i)
    ASSERT_EQ(*it, expected[i]) << "element " << i;
  EXPECT_EQ(i, expected.size());
}

TEST(Xtensor, ReadsViewsOfAnyStrides) {
  const tg::Tensor x = counting({2, 3, 4});
  expect_like(tg::as_xtensor<double>(x), x);
  expect_like(tg::as_xtensor<double>(x.transpose(0, 2)), x.transpose(0, 2));
  expect_like(tg::as_xtensor<double>(x.slice(2, 1, 4, 2)), x.slice(2, 1, 4, 2));
  expect_like(tg::as_xtensor<double>(x.select(1, 2)), x.select(1, 2));
  expect_like(tg::as_xtensor<double>(x.slice(0, 1, 2).expand({5, 3, 4})), x.slice(0, 1, 2).expand({5, 3, 4}));
  expect_like(tg::as_xtensor<double>(tg::tensor(7.0, tg::float64)), tg::tensor(7.0, tg::float64));
  EXPECT_EQ(tg::as_xtensor<double>(tg::zeros({0, 3}, tg::float64)).size(), 0u);
}

TEST(Xtensor, ReadsNegativeStrides) {
  const tg::Tensor x = counting({2, 4});
  const tg::Tensor reversed(x.array().sliced(1, 3, 4, -1));
  expect_like(tg::as_xtensor<double>(reversed), reversed);
}

TEST(Xtensor, AssignsThroughTransposedAndSlicedViews) {
  const tg::Tensor x = counting({3, 3});
  auto transposed = tg::as_xtensor<double>(x.transpose(0, 1));
  transposed = tg::as_xtensor<double>(counting({3, 3})) * 10.0;
  EXPECT_TRUE(tg::equal(x, counting({3, 3}).transpose(0, 1) * 10));

  auto columns = tg::as_xtensor<double>(x.slice(1, 0, 3, 2));
  xt::noalias(columns) = columns + 1.0;
  columns += 1.0;
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{2, 30, 62, 12, 40, 72, 22, 50, 82}));
  columns.fill(0.5);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{.5, 30, .5, .5, 40, .5, .5, 50, .5}));
}

TEST(Xtensor, KeepsTheMemoryAlive) {
  auto view = [] { return tg::as_xtensor<float>(tg::ones({1000})); }();
  const tg::Tensor other = tg::zeros({1000});
  EXPECT_EQ(xt::sum(view)(), 1000.f);
  const auto copy = view;
  view(0) = 5.f;
  EXPECT_EQ(copy(0), 5.f);
}

TEST(Xtensor, ReadingDoesNotCountAsWriting) {
  tg::Tensor x = counting({2, 3}).requires_grad_();
  const tg::Tensor loss = (x * x).sum();
  auto view = tg::as_xtensor<double>(x);
  const tg::Tensor value = tg::from_xtensor(view / (1.0 + xt::exp(-view)) + xt::transpose(xt::transpose(view)));
  const auto constant = tg::as_xtensor<double>(x);
  double sum = xt::sum(constant)() + xt::sum(view)() + constant(1, 2) + xt::strided_view(constant, {1, xt::all()})(2);
  for (const double element : constant) sum += element;
  EXPECT_GT(sum, 0);
  loss.backward();
  EXPECT_TRUE(tg::equal(x.grad(), x * 2));
}

TEST(Xtensor, WritingIsNoticedByTheSweep) {
  tg::Tensor x = counting({3}).requires_grad_();
  const tg::Tensor scale = tg::ones({3}, tg::float64);
  const auto loss = [&] { return (x * scale).sum(); };
  using Write = void (*)(tg::XtensorView<double>&);
  const Write writes[] = {[](auto& view) { view(1) = 9; },    [](auto& view) { view = xt::ones<double>({3}); },
                          [](auto& view) { view += 1.0; },    [](auto& view) { *view.begin() = 3; },
                          [](auto& view) { view.fill(2.0); }, [](auto& view) { view.data()[0] = 1; }};
  for (const Write& write : writes) {
    const tg::Tensor before = loss();
    auto view = tg::as_xtensor<double>(scale);
    write(view);
    EXPECT_THROW(before.backward(), tg::GradError) << "write number " << &write - writes;
    EXPECT_NO_THROW(loss().backward());
  }
}

TEST(Xtensor, ExpressionsBecomeTensors) {
  EXPECT_EQ(tg::from_xtensor(xt::xarray<int>{1, 2}).dtype(), tg::int64);
  EXPECT_EQ(tg::from_xtensor(xt::xarray<bool>{true, false}).dtype(), tg::boolean);
  EXPECT_EQ(tg::from_xtensor(xt::xarray<float>{1, 2} > 1.f).dtype(), tg::boolean);
  EXPECT_EQ(tg::from_xtensor(xt::xarray<std::size_t>{1, 2}).dtype(), tg::int64);
  const xt::xarray<double> matrix = {{1, 2, 3}, {4, 5, 6}};
  EXPECT_TRUE(tg::equal(tg::from_xtensor(xt::transpose(matrix)), counting({2, 3}).transpose(0, 1) + 1));
  const xt::xarray<double, xt::layout_type::column_major> column_major = matrix;
  EXPECT_TRUE(tg::equal(tg::from_xtensor(column_major), counting({2, 3}) + 1));
  EXPECT_EQ(tg::from_xtensor(xt::xarray<double>(3.5)).item(), 3.5);
  EXPECT_EQ(tg::from_xtensor(xt::zeros<float>({2, 0})).shape(), (tg::Shape{2, 0}));
  EXPECT_TRUE(tg::equal(tg::from_xtensor(matrix + xt::xarray<double>{10, 20, 30}),
                        tg::tensor({{11.0, 22.0, 33.0}, {14.0, 25.0, 36.0}}, tg::float64)));
}

TEST(Xtensor, EveryDtypeRoundTrips) {
  const tg::Tensor x = tg::tensor({0.0, 1.0, 2.0});
  EXPECT_TRUE(tg::equal(tg::from_xtensor(tg::as_xtensor<float>(x)), x));
  EXPECT_TRUE(tg::equal(tg::from_xtensor(tg::as_xtensor<std::int64_t>(x.to(tg::int64))), x));
  EXPECT_TRUE(tg::equal(tg::from_xtensor(tg::as_xtensor<bool>(x.to(tg::boolean))), tg::ne(x, 0)));
}

TEST(Xtensor, RefusesAnotherElementType) {
  EXPECT_THROW(tg::as_xtensor<float>(counting({2})), tg::DtypeError);
  auto view = tg::as_xtensor<double>(counting({2}));
  EXPECT_ANY_THROW(view = xt::ones<double>({3}));
}

}  // namespace
