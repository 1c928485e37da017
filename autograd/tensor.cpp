#include <tapegrad/autograd/sweep.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad {
namespace autograd {
namespace {

core::Shared<TensorBody> make_body(core::Array array) {
  return core::Shared<TensorBody>::adopt(new (core::pool_allocate(sizeof(TensorBody))) TensorBody(std::move(array)));
}

const TensorBody& defined_body(const Tensor& tensor, const char* operation = __builtin_FUNCTION()) {
  check_defined(operation, tensor);
  return *tensor.body();
}

}  // namespace

void fail_undefined(const char* operation) {
  throw Error(std::string(operation) +
              ": expected a tensor with a value; got an undefined one, such as Tensor() makes; give it a value first");
}

void destroy(TensorBody* body) noexcept {
  if (body->noted) drop_notes(body);
  body->~TensorBody();
  core::pool_free(body, sizeof(TensorBody));
}

void check_gradient(const char* operation, const Tensor& tensor, const Tensor& gradient, const char* kind) {
  if (gradient.shape() != tensor.shape())
    throw ShapeError(std::string(operation) + ": a " + kind + " must have its tensor's shape " +
                     tensor.shape().to_string() + "; got " + gradient.shape().to_string());
  if (gradient.dtype() != tensor.dtype())
    throw DtypeError(std::string(operation) + ": a " + kind + " must have its tensor's dtype " +
                     std::string(name_of(tensor.dtype())) + "; got " + std::string(name_of(gradient.dtype())));
}

Tensor unattached(Tensor value) {
  const TensorBody& body = defined_body(value);
  return body.wants_gradient() ? value.detach() : value;
}

Tensor attach(Tensor value, core::Shared<Entry> entry) {
  const bool reusable = value.body()->references.value() == 1 && !value.body()->wants_gradient();
  if (!reusable) value = value.detach();
  value.body()->entry = std::move(entry);
  return value;
}

}  // namespace autograd

using autograd::defined_body;

void Operand::count_moved() noexcept { borrowed_->retain(); }

Tensor::Tensor(core::Array array) : body_(autograd::make_body(std::move(array))) {}

const Shape& Tensor::shape() const { return defined_body(*this).array.shape(); }
Dtype Tensor::dtype() const { return defined_body(*this).array.dtype(); }
std::int64_t Tensor::size(std::int64_t axis) const { return shape()[normalize_axis("size", axis, rank())]; }

double Tensor::item() const {
  defined_body(*this);
  if (numel() != 1)
    throw ShapeError("item: expected a tensor of exactly one element; got shape " + shape().to_string() +
                     "; reduce it, or read to_vector()");
  const core::Array& value = array();
  return core::dispatch(value.dtype(),
                        [&](auto type) { return static_cast<double>(*value.data<typename decltype(type)::type>()); });
}

bool Tensor::requires_grad() const { return defined_body(*this).wants_gradient(); }
bool Tensor::is_leaf() const { return !defined_body(*this).entry; }

Tensor& Tensor::requires_grad_(bool requires_grad) {
  if (requires_grad && !is_floating(dtype()))
    throw DtypeError("requires_grad_: only float32 and float64 tensors have gradients; got " +
                     std::string(name_of(dtype())) + "; convert it first with .to(tapegrad::float32)");
  if (!is_leaf() && !requires_grad)
    throw GradError("requires_grad_: expected a leaf; got the result of " + std::string(body_->entry->name()) +
                    "; use detach() for the same value off the tape");
  if (is_leaf()) body_->requires_grad = requires_grad;
  return *this;
}

namespace {

/// Where the gradient of a tensor is kept.
Tensor& kept_gradient(autograd::TensorBody& body) {
  return body.entry && body.entry->noted() ? body.entry->notes()->grad : body.grad;
}

/// The notes of a tensor on the tape; GradError for another.
std::shared_ptr<autograd::Notes> notes_of(const char* operation, const Tensor& tensor) {
  if (!tensor.requires_grad())
    throw GradError(std::string(operation) + ": expected a tensor that requires a gradient; got one of shape " +
                    tensor.shape().to_string() + " off the tape; call requires_grad_() on a leaf first");
  autograd::TensorBody& body = *tensor.body();
  if (body.entry) {
    auto notes = body.entry->notes();
    if (body.grad.defined()) notes->grad = std::exchange(body.grad, {});
    return notes;
  }
  body.noted = true;
  return autograd::notes_at(&body);
}

}  // namespace

Tensor Tensor::grad() const {
  defined_body(*this);
  return kept_gradient(*body_);
}

const Tensor& Tensor::retain_grad() const {
  notes_of("retain_grad", *this)->retains_grad = true;
  return *this;
}

bool Tensor::retains_grad() const {
  const autograd::TensorBody& body = defined_body(*this);
  return body.entry && body.entry->noted() && body.entry->notes()->retains_grad;
}

HookHandle Tensor::add_hook(Hooks::Hook hook) const {
  const std::shared_ptr<autograd::Notes> notes = notes_of("register_hook", *this);
  return {std::shared_ptr<Hooks>(notes, &notes->hooks), notes->hooks.add(std::move(hook))};
}

void Tensor::set_grad(const Tensor& grad) const {
  defined_body(*this);
  if (grad.defined()) autograd::check_gradient("set_grad", *this, grad);
  kept_gradient(*body_) = grad.body() == body() ? grad.detach() : grad;  // a tensor that owned itself would never go
}

Tensor Tensor::detach() const { return Tensor(defined_body(*this).array); }

core::Array& Tensor::mutable_array() const {
  const autograd::TensorBody& body = defined_body(*this);
  if (body.entry)
    throw GradError("a value may be written in place only off the tape; got the result of " +
                    std::string(body.entry->name()) + "; use detach() or clone() first");
  if (body.requires_grad && autograd::grad_enabled())
    throw GradError("a leaf that requires a gradient may be written in place only under NoGradGuard");
  body_->array.storage()->bump_version();
  return body_->array;
}

}  // namespace tapegrad
