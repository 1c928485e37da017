#include "interrupt.hpp"

#include <csignal>

namespace toy_lm {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t noted = 0;
struct sigaction before[2];

}  // namespace

InterruptGuard::InterruptGuard() {
  noted = 0;
  struct sigaction note {};
  note.sa_handler = [](int signal) { noted = signal; };
  note.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (int i = 0; i < 2; ++i) ::sigaction(kSignals[i], &note, &before[i]);
}

InterruptGuard::~InterruptGuard() {
  for (int i = 0; i < 2; ++i) ::sigaction(kSignals[i], &before[i], nullptr);
}

int InterruptGuard::requested() const { return noted; }

}  // namespace toy_lm
