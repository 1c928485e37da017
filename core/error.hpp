// Every error that the library throws. Text: `operation: what must hold; got what; what to do`, and in front of it the
// dotted path of the module that was being called, if any (see scope.hpp).
#pragma once
#include <stdexcept>
#include <string>

namespace tapegrad {

/// The one type to catch.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text);
};
/// Shapes that don't fit: broadcasting, widths, ranks, axes.
class ShapeError : public Error {
 public:
  using Error::Error;
};
/// An element type that the operation doesn't take.
class DtypeError : public Error {
 public:
  using Error::Error;
};
/// An index or a class outside its range.
class IndexError : public Error {
 public:
  using Error::Error;
};
/// Misuse of the tape: a second sweep, a saved value that changed, a gradient that doesn't fit.
class GradError : public Error {
 public:
  using Error::Error;
};
/// A file that can't be read, written or trusted.
class FileError : public Error {
 public:
  using Error::Error;
};
/// An argument outside its domain.
class ValueError : public Error {
 public:
  using Error::Error;
};

}  // namespace tapegrad
