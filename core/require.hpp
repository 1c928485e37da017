// Checks of what a caller gave. Private to the library.
#pragma once
#include <utility>

#include <fmt/format.h>

#include <tapegrad/core/error.hpp>

namespace tapegrad {

/// Throws an E with the formatted text unless `holds`. What is formatted is evaluated in any case: no tensor that may
/// be undefined, and nothing that costs.
template <class E = ValueError, class... Args>
void require(bool holds, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds) throw E(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace tapegrad
