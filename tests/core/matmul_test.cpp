#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>

namespace tg = tapegrad;

TEST(Matmul, OneRowGivesWhatItGivesAmongOthers) {
  for (const tg::Dtype dtype : {tg::float32, tg::float64})
    for (const std::int64_t n : {1, 3, 70, 300}) {
      const tg::Tensor a = tg::randn({4, 50}, dtype), b = tg::randn({50, n}, dtype);
      const tg::Tensor columns = tg::randn({50, 4}, dtype).transpose(0, 1), rows = tg::randn({n, 50}, dtype);
      const double tolerance = dtype == tg::float32 ? 1e-5 : 1e-13;
      for (const tg::Tensor& left : {a, columns})
        for (const tg::Tensor& right : {b, rows.transpose(0, 1), tg::cat({b, b}, 1).slice(1, 1, n + 1)})
          EXPECT_TRUE(tg::allclose(tg::matmul(left.slice(0, 2, 3), right), tg::matmul(left, right).slice(0, 2, 3),
                                   tolerance, tolerance));
      EXPECT_TRUE(tg::allclose(tg::linear(a.slice(0, 1, 2), rows, b.select(0, 0)),
                               tg::linear(a, rows, b.select(0, 0)).slice(0, 1, 2), tolerance, tolerance));
    }
}

/// The sizes are those of expanded tensors: nothing of that size is made.
TEST(Matmul, SizesBeyondThoseOfBlasAreAnError) {
  const std::int64_t large = std::int64_t{1} << 31;
  const tg::Tensor row = tg::ones({1, 1}).expand({2, large}), column = tg::ones({1, 1}).expand({large, 2});
  for (const auto& f : std::vector<std::function<tg::Tensor()>>{
           [&] { return tg::matmul(row, column); }, [&] { return tg::matmul(row.select(0, 0), column.select(1, 0)); },
           [&] { return tg::linear(row, row); }}) {
    try {
      f();
      ADD_FAILURE() << "no error";
    } catch (const tg::ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find("2147483648"), std::string::npos) << error.what();
    }
  }
}
