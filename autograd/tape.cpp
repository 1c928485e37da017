#include <string>
#include <vector>

#include <tapegrad/autograd/sweep.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad {

NoGradGuard::NoGradGuard() : before_(autograd::grad_enabled()) { autograd::set_grad_enabled(false); }
NoGradGuard::~NoGradGuard() { autograd::set_grad_enabled(before_); }

namespace autograd {
namespace {

thread_local bool enabled = true;
std::atomic<std::uint64_t> next_number{1};
std::atomic<std::int64_t> live_entries{0};

}  // namespace

bool grad_enabled() { return enabled; }
void set_grad_enabled(bool value) { enabled = value; }

const Shape& Edge::shape() const { return entry ? entry->shape() : leaf->array.shape(); }
Dtype Edge::dtype() const { return entry ? entry->dtype() : leaf->array.dtype(); }

Entry::Entry(const char* name, const Tensor& value, const Tensor* inputs, int count)
    : inputs_(count),
      name_(name),
      number_(next_number.fetch_add(1, std::memory_order_relaxed)),
      dtype_(value.dtype()),
      shape_(value.shape()) {
  if (!is_floating(dtype_))
    throw DtypeError(std::string(name) + ": a recorded result must be float32 or float64; got " +
                     std::string(name_of(dtype_)));
  const core::Storage& storage = *value.body()->array.storage();
  birth_ = storage.birth();
  version_ = storage.version();
  if (count > kInlineEdges) edges_ = new Edge[static_cast<std::size_t>(count)];
  for (int i = 0; i < count; ++i) {
    const TensorBody& body = *inputs[i].body();
    Edge& edge = edges_[i];
    edge.birth = body.array.storage()->birth();
    edge.version = body.array.storage()->version();
    if (body.entry)
      edge.entry = body.entry;
    else if (body.requires_grad)
      edge.leaf = core::Shared<TensorBody>::share(inputs[i].body());
  }
  live_entries.fetch_add(1, std::memory_order_relaxed);
}

Entry::~Entry() {
  if (edges_ != inline_edges_) delete[] edges_;
  live_entries.fetch_sub(1, std::memory_order_relaxed);
}

void Entry::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(this);
}

/// Letting go of one entry may let go of the one before it, and so on: a list instead of recursion, so that the longest
/// chain fits any stack.
void Entry::destroy(Entry* entry) noexcept {
  thread_local std::vector<Entry*>* waiting = nullptr;
  if (waiting) {
    waiting->push_back(entry);
    return;
  }
  std::vector<Entry*> list{entry};
  waiting = &list;
  while (!list.empty()) {
    Entry* last = list.back();
    list.pop_back();
    delete last;
  }
  waiting = nullptr;
}

Tensor Entry::result(const core::Array& array) {
  Tensor value(array);
  if (enabled) value.body()->entry = core::Shared<Entry>::share(this);
  return value;
}

void Entry::check_unchanged(const core::Array& array) const {
  const core::Storage& storage = *array.storage();
  const auto changed = [&](std::uint64_t birth, std::uint32_t version) {
    return birth == storage.birth() && version != storage.version();
  };
  for (int i = 0; i < inputs_; ++i)
    if (changed(edges_[i].birth, edges_[i].version))
      throw GradError(std::string(name_) + ": input " + std::to_string(i) + " of shape " + array.shape().to_string() +
                      " is needed for the gradient, but its value was changed in place after the operation was recorded; "
                      "change a clone() instead, or call backward() before the change");
  if (changed(birth_, version_))
    throw GradError(std::string(name_) + ": its result of shape " + array.shape().to_string() +
                    " is needed for the gradient, but was changed in place after the operation was recorded; change a "
                    "clone() instead, or call backward() before the change");
}

bool is_recording(std::initializer_list<Tensor> inputs) {
  if (!enabled) return false;
  for (const Tensor& input : inputs)
    if (input.defined() && input.requires_grad()) return true;
  return false;
}
bool is_recording(const Tensors& inputs) {
  if (!enabled) return false;
  for (const Tensor& input : inputs)
    if (input.defined() && input.requires_grad()) return true;
  return false;
}

}  // namespace autograd

const core::Array& Tensor::array() const {
  if (!body_) throw Error("Tensor: expected a tensor with a value; got an undefined tensor");
  if (const autograd::Entry* entry = autograd::running_entry()) entry->check_unchanged(body_->array);
  return body_->array;
}

std::int64_t memory::live_entries() { return autograd::live_entries.load(); }

}  // namespace tapegrad
