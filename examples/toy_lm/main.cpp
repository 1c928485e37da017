// Trains a small language model and writes with it. Exit codes: 0 done, 1 the run failed, 2 bad input, 130
// stopped by Ctrl-C (143 by SIGTERM, 129 by SIGHUP) with a checkpoint to go on from.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "arguments.hpp"
#include "bad_input.hpp"
#include "command_line.hpp"
#include "interrupt.hpp"

namespace {

/// If the program was started without one of the standard streams, the next file that is opened would become it, and
/// hold what is printed. To print stays an error.
void occupy_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that would be too large is an error of the call that writes it
  try {
    if (const auto command = toy_lm::parse_command_line(argc, argv)) command();
    arguments::flush_output();
    return 0;
  } catch (const toy_lm::BadInput& error) {
    fmt::print(stderr, "toy_lm: {}\n", error.what());
    return 2;
  } catch (const toy_lm::Interrupted& stopped) {
    return 128 + stopped.signal;
  } catch (const std::exception& error) {
    fmt::print(stderr, "toy_lm: {}\n", error.what());
    return 1;
  }
}
