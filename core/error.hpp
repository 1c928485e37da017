// Every error that the library throws. Text: `operation: what must hold; got what; what to do`, and in front of it the
// dotted path of the module that was being called, if any (see scope.hpp).
#pragma once
#include <stdexcept>
#include <string>

namespace tapegrad {

/// The one type to catch.
struct Error : std::runtime_error {
  explicit Error(const std::string& text);
};
/// Shapes that don't fit: broadcasting, widths, ranks, axes.
struct ShapeError : Error {
  using Error::Error;
};
/// An element type that the operation doesn't take.
struct DtypeError : Error {
  using Error::Error;
};
/// An index or a class outside its range.
struct IndexError : Error {
  using Error::Error;
};
/// Misuse of the tape: a second sweep, a saved value that changed, a gradient that doesn't fit.
struct GradError : Error {
  using Error::Error;
};
/// A value that is not finite: anomaly mode, train().
struct NonFiniteError : Error {
  using Error::Error;
};
/// A file that can't be read, written or trusted.
struct FileError : Error {
  using Error::Error;
};
/// An argument outside its domain.
struct ValueError : Error {
  using Error::Error;
};

}  // namespace tapegrad
