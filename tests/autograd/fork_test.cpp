// A child process trains although its parent used threads and BLAS before the fork.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <tapegrad/tapegrad.hpp>

namespace tapegrad {
namespace {

/// One step on products that are cut among several threads; true if the weights have moved and are finite.
bool trains() {
  nn::Linear layer(256, 256);
  optim::SGD sgd(layer.parameters(), {.lr = 0.1});
  const Tensor before = layer.parameters()[0].detach().clone();
  square(layer(ones({512, 256}))).mean().backward();
  sgd.step();
  const Tensor after = layer.parameters()[0].detach();
  return !equal(after, before) && all(isfinite(after)).item() == 1;
}

TEST(Fork, AChildTrainsAStep) {
  const int threads = num_threads();
  set_num_threads(2);
  matmul(ones({512, 512}), ones({512, 512}));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // a child that hangs is killed
    bool trained = false;
    try {
      trained = trains();
    } catch (...) {
    }
    _exit(trained ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "the child was killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(trains());
  set_num_threads(threads);
}

}  // namespace
}  // namespace tapegrad
