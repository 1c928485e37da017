// What errors say.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <tapegrad/core/error.hpp>

/// The text of the tapegrad::Error, or the subclass E of it, that f throws.
template <class E = tapegrad::Error, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}
