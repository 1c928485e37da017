// Trains a small language model and writes with it. Exit codes: 0 done, 1 the run failed, 2 bad input, 130
// stopped by Ctrl-C (143 by SIGTERM, 129 by SIGHUP) with a checkpoint to go on from.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "arguments.hpp"
#include "bad_input.hpp"
#include "command_line.hpp"
#include "interrupt.hpp"

int main(int argc, char** argv) {
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
