// The progress line on a terminal.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <tapegrad/training/progress.hpp>

namespace {

/// What a terminal with so many columns is sent; 0: it doesn't tell how many it has.
std::string sent_to_terminal(unsigned short columns) {
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t process = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (process == 0) {
    tapegrad::Progress().update({.step = 7, .steps = 2000, .loss = 1.5, .lr = 1e-3, .tokens_per_second = 38000});
    ::_exit(0);
  }
  std::string seen;
  char part[4096];
  for (ssize_t count = 0; (count = ::read(terminal, part, sizeof part)) > 0;)
    seen.append(part, static_cast<std::size_t>(count));
  ::waitpid(process, nullptr, 0);
  ::close(terminal);
  return seen;
}

TEST(Progress, TheLineIsNoWiderThanTheTerminal) {
  const std::string start = "\r\x1b[K", line = "step    7/2000  loss 1.5000  lr 1.00e-03  38000 tokens/s  ";
  EXPECT_EQ(sent_to_terminal(200).substr(0, start.size() + line.size()), start + line);
  EXPECT_EQ(sent_to_terminal(0).substr(0, start.size() + line.size()), start + line);
  EXPECT_EQ(sent_to_terminal(40), start + line.substr(0, 39));
  EXPECT_EQ(sent_to_terminal(1), start);
}

}  // namespace
