// What the user gave can't be used: one clear line on stderr and exit code 2.
#pragma once
#include <stdexcept>

namespace toy_lm {

class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace toy_lm
