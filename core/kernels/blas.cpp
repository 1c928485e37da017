#include <string>

#include <tapegrad/core/blas.hpp>
#include <tapegrad/core/kernels/blas.hpp>

// OpenBLAS's own functions, and those of the OpenMP that it may be built with; absent otherwise.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
int openblas_get_parallel() __attribute__((weak));  // 0: none, 1: its own threads, 2: OpenMP
char* openblas_get_corename() __attribute__((weak));
char* openblas_get_config() __attribute__((weak));
int omp_get_max_threads() __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));
}

namespace tapegrad {
namespace core::kernels {
SingleThreadedBlas::SingleThreadedBlas() {
  static const bool openmp = [] {
    if (openblas_get_parallel && openblas_get_parallel() == 2 && omp_get_max_threads && omp_set_num_threads)
      return true;
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    return false;
  }();
  if (!openmp) return;
  openmp_threads_ = omp_get_max_threads();
  omp_set_num_threads(1);
}

SingleThreadedBlas::~SingleThreadedBlas() {
  if (openmp_threads_ > 1) omp_set_num_threads(openmp_threads_);
}

}  // namespace core::kernels

std::string blas_description() {
  if (!openblas_get_config || !openblas_get_corename) return "BLAS of unknown make";
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  const auto version_end = config.find(' ', config.find(' ') + 1);
  return config.substr(0, version_end) + " " + openblas_get_corename();
}

}  // namespace tapegrad
