// A user of xtensor beside tapegrad. Compiled without the library's flags, and once more with them: the library's own
// use of xtensor must not leak into this program, nor this program's into the library.
#include <cmath>

#include <tapegrad/tapegrad.hpp>
#include <tapegrad/xtensor.hpp>

namespace tg = tapegrad;

int main() {
  xt::xarray<double> a = xt::arange<double>(12).reshape({3, 4});
  tg::Tensor t = tg::from_xtensor(a);
  tg::Tensor product = tg::matmul(t, t.transpose(0, 1));
  const auto view = tg::as_xtensor<double>(product);
  double wrong = 0;
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      double expected = 0;
      for (std::size_t k = 0; k < 4; ++k) expected += a(i, k) * a(j, k);
      wrong += std::abs(view(i, j) - expected);
    }
  const xt::xarray<double> scaled = xt::exp(-view / 100.0) + xt::sum(a)();
  wrong += std::abs(scaled(2, 2) - (std::exp(-view(2, 2) / 100.0) + 66.0));
  fmt::print("difference {}\n", wrong);
  return wrong < 1e-9 ? 0 : 1;
}
