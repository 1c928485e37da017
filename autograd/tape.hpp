// The tape: entries numbered in the order of their creation, which is a topological order; and `record`, which appends
// one.
#pragma once
#include <atomic>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <tapegrad/autograd/span.hpp>
#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad {

/// While it lives, operations on this thread are recorded, or are not.
class GradModeGuard {
 public:
  [[nodiscard]] explicit GradModeGuard(bool enabled);
  ~GradModeGuard();
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool before_;
};
/// While it lives, operations on this thread are not recorded.
struct NoGradGuard : GradModeGuard {
  [[nodiscard]] NoGradGuard() : GradModeGuard(false) {}
};

namespace autograd {

/// Whether operations on this thread are recorded.
bool grad_enabled();
void set_grad_enabled(bool enabled);

/// Whether operations on this thread are checked for values that are not finite: see anomaly.hpp.
bool anomaly_enabled();

/// What this thread asks of every operation, in one look.
enum Modes : unsigned { kRecords = 1, kChecksValues = 2 };
unsigned modes();

class Entry;

/// What few places of the tape have. They stand in a table beside it: the many others must not be the larger for it.
struct Notes {
  Hooks hooks;
  bool retains_grad = false;
  Tensor grad;  // of an intermediate result that retains it
  // In anomaly mode: the path of the module that recorded it, and the line of the user's program.
  std::string module;
  SourceLocation line;
};

/// The notes of a place, a leaf's TensorBody or an Entry; made if there are none.
std::shared_ptr<Notes> notes_at(const void* place);
void drop_notes(const void* place) noexcept;

/// What a Tensor points to. A leaf that wants a gradient has `requires_grad`; a recorded result owns its entry.
struct TensorBody {
  explicit TensorBody(core::Array value) : array(std::move(value)) {}
  void retain() { references.add(); }
  void release() noexcept {
    if (references.drop()) destroy(this);
  }
  bool wants_gradient() const { return requires_grad || entry; }

  core::ReferenceCount references;
  bool requires_grad = false;
  bool noted = false;  // there are notes of this leaf; a result's are its entry's
  core::Shared<Entry> entry;
  Tensor grad;
  core::Array array;
};

/// A tensor as an argument of `record`: no handle is copied.
struct TensorRef {
  TensorRef(const Tensor& tensor) : tensor(&tensor) {}
  const Tensor* tensor;
};
/// The inputs of an operation, wherever they stand.
class Inputs {
 public:
  Inputs(const TensorRef* inputs, std::size_t count) : refs_(inputs), count_(static_cast<int>(count)) {}
  Inputs(const Tensor* inputs, std::size_t count) : tensors_(inputs), count_(static_cast<int>(count)) {}
  Inputs(const Tensors& inputs) : Inputs(inputs.data(), inputs.size()) {}
  int count() const { return count_; }
  const Tensor& operator[](int i) const { return refs_ ? *refs_[i].tensor : tensors_[i]; }

 private:
  const TensorRef* refs_ = nullptr;
  const Tensor* tensors_ = nullptr;
  int count_;
};

/// One input of an entry: where its gradient goes, and which value it was.
class Edge {
 public:
  Edge() = default;
  explicit Edge(const TensorBody& input);
  Edge(const Edge& other);
  Edge(Edge&& other) noexcept { *this = std::move(other); }
  Edge& operator=(Edge&& other) noexcept;
  ~Edge();

  /// The input is a recorded result, or
  Entry* entry() const { return kind_ == Kind::entry ? static_cast<Entry*>(target_) : nullptr; }
  /// a leaf that wants a gradient, or neither.
  TensorBody* leaf() const { return kind_ == Kind::leaf ? static_cast<TensorBody*>(target_) : nullptr; }
  const Shape& shape() const;
  Dtype dtype() const;
  /// `storage` is the one that was read, and was written since.
  bool is_changed(const core::Storage& storage) const {
    return birth_ == storage.birth() && version_ != storage.version();
  }
  /// The storage that was read.
  std::uint64_t birth() const { return birth_; }
  /// The same place and the same value.
  bool operator==(const Edge&) const = default;

 private:
  enum class Kind : std::uint8_t { none, entry, leaf };
  void* target_ = nullptr;
  std::uint64_t birth_ = 0;
  std::uint32_t version_ = 0;
  Kind kind_ = Kind::none;
};

/// One recorded operation. It owns the entries before it and its closure; never its own result.
class Entry {
 public:
  static constexpr int kInlineEdges = 3;

  const char* name() const { return name_; }
  std::uint64_t number() const { return number_; }
  const Shape& shape() const { return shape_; }
  Dtype dtype() const { return dtype_; }
  int inputs() const { return inputs_; }
  const Edge& edge(int i) const { return edges_[i]; }
  bool consumed() const { return consumed_; }
  std::uint64_t birth() const { return birth_; }
  /// There are notes,
  bool noted() const { return noted_; }
  /// and there will be.
  std::shared_ptr<Notes> notes();

  /// Runs the closure: the gradients of the inputs, unchecked.
  virtual Tensors run(const Tensor& gradient) = 0;
  /// Lets go of the closure and all that it saved.
  virtual void consume() noexcept = 0;
  /// Throws GradError if `array` is an input (or the result) of this entry whose value was changed since it was
  /// recorded.
  void check_unchanged(const core::Array& array) const;

  void retain() { references_.add(); }
  void release() noexcept;

  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 protected:
  Entry(const char* name, const Tensor& value, const Inputs& inputs);
  virtual ~Entry();
  /// The result, as a tensor at this place of the tape.
  Tensor result(const core::Array& array);
  bool consumed_ = false;

 private:
  bool noted_ = false;
  static void destroy(Entry* entry) noexcept;

  // What every sweep reads comes first: it shares a cache line.
  core::ReferenceCount references_;
  Dtype dtype_;
  std::uint32_t version_;
  int inputs_;
  const char* name_;
  std::uint64_t number_;
  std::uint64_t birth_;
  Edge* edges_ = inline_edges_;
  Entry* next_ended_ = nullptr;
  Edge inline_edges_[kInlineEdges];
  Shape shape_;
};

template <class Backward>
class EntryOf final : public Entry {
 public:
  static constexpr bool kTakesResult = std::is_invocable_v<Backward&, const Tensor&, const Tensor&>;

  EntryOf(const char* name, const Tensor& value, const Inputs& inputs, Backward&& backward)
      : Entry(name, value, inputs), backward_(std::move(backward)) {
    if constexpr (kTakesResult) saved_result_ = value.array();
  }
  Tensors run(const Tensor& gradient) override {
    if constexpr (kTakesResult)
      return (*backward_)(gradient, result(saved_result_));
    else
      return (*backward_)(gradient);
  }
  void consume() noexcept override {
    consumed_ = true;
    backward_.reset();
    saved_result_ = {};
  }

  static void* operator new(std::size_t bytes) { return core::pool_allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { core::pool_free(memory, bytes); }

 private:
  std::optional<Backward> backward_;
  struct Nothing {};
  std::conditional_t<kTakesResult, core::Array, Nothing> saved_result_;
};

/// True if an operation on these inputs would be recorded here and now: fused closures then use the composed formula.
bool is_recording(std::initializer_list<TensorRef> inputs);
/// Inside a closure: whether anybody wants the gradient of the operation's input `i` in this sweep. A closure may leave
/// the gradients that nobody wants undefined; it never has to.
bool needs_gradient(int i);

/// In anomaly mode: throws if `result` is not finite, and notes where `entry` was recorded.
void check_value(const char* name, const Tensor& result, const Inputs& inputs, SourceLocation where);
void note_place(Entry& entry, SourceLocation where);

/// Puts `entry` behind `value` (behind a new handle to it, if the handle is shared).
Tensor attach(Tensor value, core::Shared<Entry> entry);
/// `value` off the tape, for results that need no entry.
Tensor unattached(Tensor value);

/// Records an operation, if gradients are enabled and one of `inputs` wants one, and returns the result.
///
/// `name`: the operation, a literal (it is kept as a pointer). `value`: the result, a Tensor or core::Array of a
/// floating dtype, or a function without arguments that computes it, so that a profile can show its time. `backward`:
/// called in a sweep with the gradient of the result (of the result's shape and dtype), and, if it takes a second
/// parameter, with the result itself; it returns one gradient for each input, in order. A gradient has the input's
/// dtype, and the input's shape or the result's (the engine then sums over what was broadcast); an undefined one counts
/// as zero. It must capture inputs, never the result. Written with differentiable operations it can itself be
/// differentiated. A closure that breaks these rules is reported by GradError in the name of the operation.
template <class Value, class Backward>
Tensor record(const char* name, Value&& value, const Inputs& inputs, Backward&& backward,
              SourceLocation where = SourceLocation::current()) {
  using Closure = std::decay_t<Backward>;
  const Span span(name);
  Tensor result = [&] {
    if constexpr (std::is_invocable_v<Value&>)
      return Tensor(value());
    else
      return Tensor(std::forward<Value>(value));
  }();
  const unsigned mode = modes();
  if (mode & kChecksValues) check_value(name, result, inputs, where);
  bool wanted = false;
  if (mode & kRecords)
    for (int i = 0; i < inputs.count(); ++i) wanted = inputs[i].requires_grad() || wanted;
  if (!wanted) return unattached(std::move(result));
  auto entry =
      core::Shared<Entry>::adopt(new EntryOf<Closure>(name, result, inputs, Closure(std::forward<Backward>(backward))));
  span.recorded(*entry);
  if (mode & kChecksValues) note_place(*entry, where);
  return attach(std::move(result), std::move(entry));
}
template <class Value, class Backward>
Tensor record(const char* name, Value&& value, std::initializer_list<TensorRef> inputs, Backward&& backward,
              SourceLocation where = SourceLocation::current()) {
  return record(name, std::forward<Value>(value), Inputs(inputs.begin(), inputs.size()),
                std::forward<Backward>(backward), where);
}

}  // namespace autograd
}  // namespace tapegrad
