// The BLAS library behind the matrix products. Private to the library.
#pragma once

namespace tapegrad::core::kernels {

/// While it lives, BLAS calls from this thread stay on it: BLAS's own threads would fight with ours, and cut sums in
/// their own way. A build of OpenBLAS with its own threads is set once for the process; one with OpenMP asks the
/// calling thread's OpenMP setting, which is put back.
class SingleThreadedBlas {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();

 private:
  int openmp_threads_ = 0;
};

}  // namespace tapegrad::core::kernels
