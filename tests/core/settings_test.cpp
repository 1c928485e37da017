// What is in force: the number of threads, and which BLAS computes.
#include <gtest/gtest.h>

#include <tapegrad/core/blas.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad {
namespace {

TEST(Settings, ThreadsAreSetForEverythingAndCanBeAsked) {
  const int before = num_threads();
  for (const int threads : {1, 3, 2}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
  }
  EXPECT_THROW(set_num_threads(0), ValueError);
  EXPECT_EQ(num_threads(), 2) << "a refused number changes nothing";
  set_num_threads(before);
}

TEST(Settings, TheBlasInUseIsNamed) { EXPECT_NE(blas_description().find("OpenBLAS"), std::string::npos); }

}  // namespace
}  // namespace tapegrad
