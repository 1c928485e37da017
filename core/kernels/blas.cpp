#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include <tapegrad/core/blas.hpp>
#include <tapegrad/core/kernels/blas.hpp>

// OpenBLAS's own functions, absent from other libraries of the same interface.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
char* openblas_get_corename() __attribute__((weak));
char* openblas_get_config() __attribute__((weak));
void gotoblas_dynamic_init() __attribute__((weak));
void gotoblas_dynamic_quit() __attribute__((weak));
}

namespace tapegrad {
namespace core::kernels {
namespace {

bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

/// OpenBLAS chooses its kernels by the processor's model, and takes its AVX2 ones for a model that it does not know, at
/// half the speed of its AVX-512 ones. Its own variable OPENBLAS_CORETYPE corrects that, if it looks again; a setting
/// of the user's stands.
void choose_kernels() {
  const bool can_choose = openblas_get_corename && gotoblas_dynamic_init && gotoblas_dynamic_quit;
  if (!can_choose || !has_avx512() || std::getenv("OPENBLAS_CORETYPE")) return;
  const std::string_view chosen = openblas_get_corename();
  if (chosen != "Haswell" && chosen != "Zen") return;
  setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv("OPENBLAS_CORETYPE");
}

}  // namespace

void prepare_blas() {
  static std::once_flag once;
  std::call_once(once, [] {
    choose_kernels();
    if (openblas_set_num_threads) openblas_set_num_threads(1);
  });
}

}  // namespace core::kernels

std::string blas_description() {
  core::kernels::prepare_blas();
  if (!openblas_get_config || !openblas_get_corename) return "BLAS of unknown make";
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  const auto version_end = config.find(' ', config.find(' ') + 1);
  return config.substr(0, version_end) + " " + openblas_get_corename();
}

}  // namespace tapegrad
