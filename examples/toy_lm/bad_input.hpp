// What the user gave can't be used: one clear line on stderr and exit code 2.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>

namespace toy_lm {

class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// BadInput unless the value given for an option is at least so much.
inline void at_least(const char* option, std::int64_t value, std::int64_t smallest) {
  if (value < smallest) throw BadInput(fmt::format("{}: must be at least {}; got {}", option, smallest, value));
}

}  // namespace toy_lm
