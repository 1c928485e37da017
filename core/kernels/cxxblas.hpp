// xtensor-blas's interface to BLAS, as tapegrad::core::kernels::cxxblas. Its templates are compiled under a name of our
// own: a user who includes xtensor-blas with other flags would else have two different functions under one name, of
// which the linker keeps either.
#pragma once
#include <algorithm>
#include <complex>

#define xt tapegrad_private_xt
#define cxxblas tapegrad_private_cxxblas
#include <xtensor-blas/xblas_config.hpp>
#ifndef HAVE_CBLAS
#error "without a CBLAS cxxblas runs every product in loops, dozens of times slower"
#endif
#include <xflens/cxxblas/cxxblas.cxx>
#undef cxxblas
#undef xt

namespace tapegrad::core::kernels {
namespace cxxblas = tapegrad_private_cxxblas;
using BlasIndex = tapegrad_private_xt::blas_index_t;
}  // namespace tapegrad::core::kernels
