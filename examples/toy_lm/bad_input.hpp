// What the user gave can't be used: one clear line on stderr and exit code 2.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace toy_lm {

class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// BadInput unless the value of an option is in its range.
template <class T, class Range>
void check(const std::string& option, const T& value, const Range& range) {
  if (!range.holds(value)) throw BadInput(fmt::format("{}: must be {}; got {}", option, range.text(), value));
}

}  // namespace toy_lm
