#include <mutex>
#include <string>

#include <tapegrad/core/blas.hpp>
#include <tapegrad/core/kernels/blas.hpp>

// OpenBLAS's own functions, absent from other libraries of the same interface.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
char* openblas_get_corename() __attribute__((weak));
char* openblas_get_config() __attribute__((weak));
}

namespace tapegrad {

void core::kernels::prepare_blas() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (openblas_set_num_threads) openblas_set_num_threads(1);
  });
}

std::string blas_description() {
  if (!openblas_get_config || !openblas_get_corename) return "BLAS of unknown make";
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  const auto version_end = config.find(' ', config.find(' ') + 1);
  return config.substr(0, version_end) + " " + openblas_get_corename();
}

}  // namespace tapegrad
