// The BLAS library behind the matrix products. Private to the library.
#pragma once

namespace tapegrad::core::kernels {

/// Called before every product; does its work once: BLAS's own threads would fight with ours, so each call stays on the
/// thread that makes it.
void prepare_blas();

}  // namespace tapegrad::core::kernels
