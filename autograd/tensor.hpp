// Tensor: a cheap handle to a value and, perhaps, to a place on the tape.
#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <tapegrad/autograd/hooks.hpp>
#include <tapegrad/autograd/scalar.hpp>
#include <tapegrad/autograd/user_line.hpp>
#include <tapegrad/core/array.hpp>
#include <tapegrad/core/dtype.hpp>
#include <tapegrad/core/shape.hpp>

namespace tapegrad {

namespace autograd {
class Entry;
struct Notes;
struct TensorBody;
void destroy(TensorBody* body) noexcept;
}  // namespace autograd

class Tensor;
class Operand;
struct IndexItem;
using Tensors = std::vector<Tensor>;

/// What a backward sweep may be told.
struct BackwardOptions {
  /// Keep the tape for another sweep; create_graph implies it.
  bool retain_graph = false;
  /// Record the sweep itself, so that gradients can be differentiated again. A leaf's grad() then holds the graph that
  /// holds the leaf: clear it with set_grad({}) when done, or use autograd::grad, which leaves no such cycle.
  bool create_graph = false;
};

/// What looks at gradients: register_hook.
using Hooks = autograd::HookList<Tensor>;
using HookHandle = Hooks::Handle;

/// Copies share value, gradient and place on the tape. A default-made Tensor is undefined: `defined()` is false and any
/// other use throws Error.
class Tensor {
 public:
  Tensor() = default;
  /// A tensor of this value that is not on the tape.
  explicit Tensor(core::Array array);
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  Tensor(Operand&& operand);  // a copy: what an operand borrows can't be moved out of it
  // To variables alone: x.select(0, 1) = y would change nothing, and does not compile.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  Tensor& operator=(Operand&& operand) &;

  bool defined() const { return static_cast<bool>(body_); }
  const Shape& shape() const;
  /// Size along `axis`; negative axes count from the end.
  std::int64_t size(std::int64_t axis) const;
  int rank() const { return shape().rank(); }
  std::int64_t numel() const { return shape().numel(); }
  Dtype dtype() const;
  /// "tensor([1, 2], dtype=float32)": values (the middle of long axes left out), shape when it can't be seen, dtype.
  std::string to_string() const;

  /// The only element as a number; ShapeError if there is not exactly one.
  double item() const;
  /// All elements in row-major order, converted to T (double, float, std::int64_t or bool).
  template <class T>
  std::vector<T> to_vector() const;

  /// True if a gradient flows to it: a leaf that asked for one, or a recorded result.
  bool requires_grad() const;
  /// Not the result of a recorded operation.
  bool is_leaf() const;
  /// Asks for (or declines) a gradient on a leaf; DtypeError unless floating, GradError if it is not a leaf.
  Tensor& requires_grad_(bool requires_grad = true);
  /// The gradient of a leaf, or of a result that retains it, accumulated by backward sweeps; undefined before the
  /// first.
  Tensor grad() const;
  /// Replaces the gradient; an undefined tensor clears it. ShapeError or DtypeError unless it is like this tensor.
  void set_grad(const Tensor& grad) const;
  /// Backward sweeps keep the gradient of this intermediate result in grad() too; nothing to do for a leaf. GradError
  /// unless the tensor is on the tape.
  const Tensor& retain_grad() const;
  bool retains_grad() const;
  /// Calls `hook` with d(loss)/d(this) in every sweep that reaches this tensor, backward() or autograd::grad, once the
  /// gradient is complete and before it is passed on or added to grad(). If the hook returns a defined tensor (of the
  /// gradient's shape and dtype), that one is used instead; one that returns nothing observes. Hooks are called in the
  /// order of their registration, in the grad mode of the sweep. A hook must not write into the gradient, which others
  /// may share: the sweep then throws. GradError unless the tensor is on the tape.
  template <class F>
  HookHandle register_hook(F hook) const {
    return add_hook(Hooks::hook_of("register_hook", std::move(hook)));
  }
  /// Accumulates d(this)/d(leaf) into every leaf's grad(). This tensor must have one element.
  void backward(const BackwardOptions& options = {}, SourceLocation where = SourceLocation::current()) const;
  /// The same for any shape: `gradient` is d(loss)/d(this).
  void backward(const Tensor& gradient, const BackwardOptions& options = {},
                SourceLocation where = SourceLocation::current()) const;
  /// The same value (shared storage), off the tape.
  Tensor detach() const;

  // The most used operations; each is also a free function, where it is explained.
  Tensor to(Dtype dtype, SourceLocation where = SourceLocation::current()) const;
  Tensor clone(SourceLocation where = SourceLocation::current()) const;
  Tensor contiguous(SourceLocation where = SourceLocation::current()) const;
  Tensor sum(const Axes& axes = {}, bool keepdim = false, SourceLocation where = SourceLocation::current()) const;
  Tensor mean(const Axes& axes = {}, bool keepdim = false, SourceLocation where = SourceLocation::current()) const;
  Tensor max(std::int64_t axis, bool keepdim = false, SourceLocation where = SourceLocation::current()) const;
  Tensor min(std::int64_t axis, bool keepdim = false, SourceLocation where = SourceLocation::current()) const;
  Tensor max(SourceLocation where = SourceLocation::current()) const;
  Tensor min(SourceLocation where = SourceLocation::current()) const;
  Tensor argmax(std::int64_t axis, bool keepdim = false, SourceLocation where = SourceLocation::current()) const;
  Tensor pow(const Scalar& exponent, SourceLocation where = SourceLocation::current()) const;
  Tensor exp(SourceLocation where = SourceLocation::current()) const;
  Tensor log(SourceLocation where = SourceLocation::current()) const;
  Tensor sqrt(SourceLocation where = SourceLocation::current()) const;
  Tensor abs(SourceLocation where = SourceLocation::current()) const;
  Tensor tanh(SourceLocation where = SourceLocation::current()) const;
  Tensor reshape(const Shape& shape, SourceLocation where = SourceLocation::current()) const;
  Tensor flatten(std::int64_t first = 0, std::int64_t last = -1,
                 SourceLocation where = SourceLocation::current()) const;
  Tensor transpose(std::int64_t a, std::int64_t b, SourceLocation where = SourceLocation::current()) const;
  Tensor permute(const Shape& axes, SourceLocation where = SourceLocation::current()) const;
  Tensor squeeze(std::int64_t axis, SourceLocation where = SourceLocation::current()) const;
  Tensor unsqueeze(std::int64_t axis, SourceLocation where = SourceLocation::current()) const;
  Tensor expand(const Shape& shape, SourceLocation where = SourceLocation::current()) const;
  Tensor slice(std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1,
               SourceLocation where = SourceLocation::current()) const;
  Tensor select(std::int64_t axis, std::int64_t index, SourceLocation where = SourceLocation::current()) const;
  Tensor index(const std::vector<IndexItem>& items, SourceLocation where = SourceLocation::current()) const;
  Tensor matmul(const Tensor& other, SourceLocation where = SourceLocation::current()) const;

  // Inside the library.
  /// The value. During a sweep: GradError if the running closure saved this value and it was changed since.
  const core::Array& array() const;
  /// The value, to be written in place: bumps the version. For leaves under NoGradGuard or off the tape; GradError
  /// else.
  core::Array& mutable_array() const;
  autograd::TensorBody* body() const { return body_.get(); }
  explicit Tensor(core::Shared<autograd::TensorBody> body) : body_(std::move(body)) {}

 private:
  friend class Operand;
  HookHandle add_hook(Hooks::Hook hook) const;

  core::Shared<autograd::TensorBody> body_;
};

/// Elements of any floating type make float32, integers int64, booleans boolean.
template <class T>
constexpr Dtype default_dtype() {
  return std::is_same_v<T, bool> ? boolean : std::is_integral_v<T> ? int64 : float32;
}

}  // namespace tapegrad

// What a Tensor points to and how it is passed, so that including this header is enough to use one.
#include <tapegrad/autograd/operand.hpp>
#include <tapegrad/autograd/tape.hpp>
