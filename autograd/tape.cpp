#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <tapegrad/autograd/anomaly.hpp>
#include <tapegrad/autograd/sweep.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad {

namespace autograd {
namespace {

thread_local bool enabled = true;
thread_local bool checks_values = false;
std::atomic<std::uint64_t> next_number{1};
std::atomic<std::uint64_t> ended_entries{0};

struct NotesTable {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<Notes>> notes;
};
/// It is never destroyed: tensors in static variables outlive everything.
NotesTable& notes_table() {
  static NotesTable& table = *new NotesTable;
  return table;
}

}  // namespace

bool grad_enabled() { return enabled; }
void set_grad_enabled(bool value) { enabled = value; }
bool anomaly_enabled() { return modes() & kChecksValues; }
unsigned modes() { return (enabled ? kRecords : 0u) | (checks_values || anomaly_in_environment ? kChecksValues : 0u); }
AnomalyGuard::AnomalyGuard(bool on) : before_(checks_values) {
  checks_values = on;
  ++UserLine::wanted;
}
AnomalyGuard::~AnomalyGuard() {
  checks_values = before_;
  --UserLine::wanted;
}

std::uint64_t last_number() { return next_number.load(std::memory_order_relaxed) - 1; }

Edge::Edge(const TensorBody& input) {
  const core::Storage& storage = *input.array.storage();
  birth_ = storage.birth();
  version_ = storage.version();
  if (input.entry) {
    kind_ = Kind::entry;
    target_ = input.entry.get();
    input.entry->retain();
  } else if (input.requires_grad) {
    kind_ = Kind::leaf;
    target_ = const_cast<TensorBody*>(&input);
    leaf()->retain();
  }
}

Edge::Edge(const Edge& other)
    : target_(other.target_), birth_(other.birth_), version_(other.version_), kind_(other.kind_) {
  if (entry()) entry()->retain();
  if (leaf()) leaf()->retain();
}

Edge& Edge::operator=(Edge&& other) noexcept {
  std::swap(target_, other.target_);
  std::swap(birth_, other.birth_);
  std::swap(version_, other.version_);
  std::swap(kind_, other.kind_);
  return *this;
}

Edge::~Edge() {
  if (kind_ == Kind::entry) entry()->release();
  if (kind_ == Kind::leaf) leaf()->release();
}

const Shape& Edge::shape() const { return kind_ == Kind::entry ? entry()->shape() : leaf()->array.shape(); }
Dtype Edge::dtype() const { return kind_ == Kind::entry ? entry()->dtype() : leaf()->array.dtype(); }

Tensor tensor_at(const Edge& edge) {
  if (edge.leaf()) return Tensor(core::Shared<TensorBody>::share(edge.leaf()));
  return attach(Tensor(core::Array({}, edge.dtype())), core::Shared<Entry>::share(edge.entry()));
}

Entry::Entry(const char* name, const Tensor& value, const Inputs& inputs)
    : dtype_(value.dtype()), inputs_(inputs.count()), name_(name), shape_(value.shape()) {
  if (!is_floating(dtype_))
    throw DtypeError(std::string(name) + ": a recorded result must be float32 or float64; got " +
                     std::string(name_of(dtype_)));
  const core::Storage& storage = *value.body()->array.storage();
  birth_ = storage.birth();
  version_ = storage.version();
  if (inputs_ > kInlineEdges) edges_ = new Edge[static_cast<std::size_t>(inputs_)];
  for (int i = 0; i < inputs_; ++i) edges_[i] = Edge(*inputs[i].body());
  number_ = next_number.fetch_add(1, std::memory_order_relaxed);  // last: an entry that throws was never made
}

Entry::~Entry() {
  if (noted_) drop_notes(this);
  if (edges_ != inline_edges_) delete[] edges_;
  ended_entries.fetch_add(1, std::memory_order_relaxed);
}

void Entry::release() noexcept {
  if (references_.drop()) destroy(this);
}

/// Letting go of one entry may let go of the one before it, and so on: a list instead of recursion, so that the longest
/// chain fits any stack.
void Entry::destroy(Entry* entry) noexcept {
  thread_local Entry* ended = nullptr;
  thread_local bool is_emptying = false;
  entry->next_ended_ = std::exchange(ended, entry);
  if (is_emptying) return;
  is_emptying = true;
  while (ended) delete std::exchange(ended, ended->next_ended_);
  is_emptying = false;
}

std::shared_ptr<Notes> notes_at(const void* place) {
  NotesTable& table = notes_table();
  const std::lock_guard lock(table.mutex);
  std::shared_ptr<Notes>& notes = table.notes[place];
  if (!notes) notes = std::make_shared<Notes>();
  return notes;
}

void drop_notes(const void* place) noexcept {
  NotesTable& table = notes_table();
  std::unique_lock lock(table.mutex);
  const auto node = table.notes.extract(place);
  lock.unlock();  // what the notes hold may have notes too
}

std::shared_ptr<Notes> Entry::notes() {
  noted_ = true;
  return notes_at(this);
}

Tensor Entry::result(const core::Array& array) {
  Tensor value(array);
  if (enabled) value.body()->entry = core::Shared<Entry>::share(this);
  return value;
}

void Entry::check_unchanged(const core::Array& array) const {
  const core::Storage& storage = *array.storage();
  for (int i = 0; i < inputs_; ++i)
    if (edges_[i].is_changed(storage))
      throw GradError(
          std::string(name_) + ": input " + std::to_string(i) + " of shape " + array.shape().to_string() +
          " is needed for the gradient, but its value was changed in place after the operation was recorded; "
          "change a clone() instead, or call backward() before the change");
  if (birth_ == storage.birth() && version_ != storage.version())
    throw GradError(std::string(name_) + ": its result of shape " + array.shape().to_string() +
                    " is needed for the gradient, but was changed in place after the operation was recorded; change a "
                    "clone() instead, or call backward() before the change");
}

bool is_recording(std::initializer_list<TensorRef> inputs) {
  if (!enabled) return false;
  for (const TensorRef& input : inputs)
    if (input.tensor->defined() && input.tensor->requires_grad()) return true;
  return false;
}
}  // namespace autograd

GradModeGuard::GradModeGuard(bool enabled) : before_(autograd::enabled) { autograd::enabled = enabled; }
GradModeGuard::~GradModeGuard() { autograd::enabled = before_; }

const core::Array& Tensor::array() const {
  autograd::check_defined("array", *this);
  if (const autograd::Entry* entry = autograd::running_entry()) entry->check_unchanged(body_->array);
  return body_->array;
}

std::int64_t memory::live_entries() {
  const std::uint64_t ended = autograd::ended_entries.load();  // first, so that the difference is never negative
  return static_cast<std::int64_t>(autograd::next_number.load() - 1 - ended);
}

}  // namespace tapegrad
