#include "interrupt.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iterator>
#include <string>

namespace toy_lm {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
volatile std::sig_atomic_t noted = 0;
struct sigaction before[std::size(kSignals)];
std::string said;  // changed only while the signals are not caught

void note(int signal) {
  noted = signal;
  if (signal == SIGHUP) return;  // nobody is there to read
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, said.data(), said.size());
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard(const char* answer) {
  noted = 0;
  if (answer) said = (::isatty(STDERR_FILENO) == 1 ? "\n" : "") + std::string(answer);  // behind "^C"
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &before[i]);
    if (kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : note;  // who reads may be gone by the same Ctrl-C
    action.sa_flags = SA_RESTART;
    // Not a hangup, which comes twice: from the terminal and from the shell.
    if (answer && (kSignals[i] == SIGINT || kSignals[i] == SIGTERM)) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
  said.clear();
}

int InterruptGuard::requested() const { return noted; }

void InterruptGuard::heed() const {
  if (noted) throw Interrupted{noted};
}

}  // namespace toy_lm
