#include <tapegrad/core/error.hpp>
#include <tapegrad/core/scope.hpp>

namespace tapegrad {
namespace core {

std::string Scope::path_to_here() const {
  std::string text;
  for (const Scope* scope = this; scope; scope = scope->outer_) {
    if (scope->name_->empty()) continue;
    text = text.empty() ? *scope->name_ : *scope->name_ + "." + text;
  }
  return text;
}

}  // namespace core

namespace {
std::string located(const std::string& text) {
  const std::string path = core::Scope::path();
  return path.empty() ? text : path + ": " + text;
}
}  // namespace

Error::Error(const std::string& text) : std::runtime_error(located(text)) {}

}  // namespace tapegrad
