// Sums of products by Einstein's convention.
#pragma once
#include <concepts>
#include <string_view>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// An equation, and the line of the call.
struct EinsumText {
  template <std::convertible_to<std::string_view> Text>
  EinsumText(const Text& equation, SourceLocation where = SourceLocation::current())
      : equation(equation), line(where) {}
  std::string_view equation;
  autograd::UserLine line;
};

/// einsum("bik,bkj->bij", {a, b}): every label is an index; the result is the product of the operands, summed over the
/// labels that are not behind the arrow.
///
/// Labels are letters. A label twice in one operand takes its diagonal. "..." are dimensions without labels, aligned
/// from the last; they broadcast, as dimensions of size 1 do under a label. Without an arrow the result has the
/// dimensions of
/// "...", then, in the order of the alphabet (capitals first), the labels that occur once. With one, "..." that is not
/// behind it is summed over.
///
/// Operands are contracted from left to right, two at a time, each pair by one matmul (of a batch, for labels that both
/// have and that are needed later); so gradients of any order follow. Dtypes are promoted; booleans are refused. Errors
/// show the equation.
Tensor einsum(const EinsumText& equation, const Tensors& operands);
template <std::same_as<Tensor>... T>
Tensor einsum(const EinsumText& equation, const T&... operands) {
  return einsum(equation, Tensors{operands...});
}

}  // namespace tapegrad
