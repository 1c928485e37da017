#include <tapegrad/autograd/index.hpp>

#include <algorithm>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/placing.hpp>
#include <tapegrad/autograd/reductions.hpp>

namespace tapegrad {
namespace {

/// How many axes of x an item stands for.
int axes_of(const IndexItem& item) {
  if (const auto* tensor = std::get_if<Tensor>(&item.item)) return tensor->dtype() == boolean ? tensor->rank() : 1;
  return std::holds_alternative<std::int64_t>(item.item) || std::holds_alternative<Slice>(item.item);
}

void check_items(const Operand& x, const std::vector<IndexItem>& items) {
  int axes = 0, ellipses = 0;
  for (const IndexItem& item : items) {
    const auto* tensor = std::get_if<Tensor>(&item.item);
    if (tensor) autograd::check_defined("index", *tensor);
    axes += axes_of(item);
    ellipses += std::holds_alternative<Ellipsis>(item.item);
    if (tensor && is_floating(tensor->dtype()))
      throw DtypeError("index: tensors must be int64 or boolean; got " + std::string(name_of(tensor->dtype())) +
                       "; convert it first with .to(tapegrad::int64)");
    if (tensor && tensor->dtype() == boolean && tensor->rank() == 0)
      throw ShapeError("index: a mask must have at least one dimension; got shape []");
  }
  if (ellipses > 1) throw ValueError("index: an ellipsis may stand once; got " + std::to_string(ellipses));
  if (axes > x.rank("index"))
    throw ShapeError("index: there must not be more positions than axes; got " + std::to_string(axes) +
                     " positions for shape " + x.shape().to_string());
}

Tensor sliced(const Tensor& x, int axis, const Slice& range) {
  const std::int64_t size = x.shape()[axis], step = range.step.value_or(1);
  if (step == 0) throw ValueError("index: the step of a slice must not be 0");
  const std::int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? size - 1 : size;
  const auto bound = [&](const std::optional<std::int64_t>& at, std::int64_t left_out) {
    if (!at) return left_out;
    return std::clamp(*at < 0 ? *at + size : *at, lowest, highest);
  };
  const std::int64_t start = bound(range.start, step < 0 ? highest : lowest);
  const std::int64_t stop = bound(range.stop, step < 0 ? lowest : highest);
  if (step > 0) return autograd::take(x, {axis, start, stop > start ? (stop - start - 1) / step + 1 : 0, step});
  // Memory is never walked backwards by a view.
  const std::int64_t count = start > stop ? (stop + 1 - start) / step + 1 : 0;
  if (count == 0) return autograd::take(x, {axis, 0, 0, 1});
  const std::int64_t stride = count == 1 ? 1 : -step;
  return flip(autograd::take(x, {axis, start - (count - 1) * stride, count, stride}), axis);
}

/// `positions` along an axis of this size, none of them negative.
Tensor counted_from_the_start(const Tensor& positions, std::int64_t size, std::int64_t axis, const Shape& shape) {
  const Array array = positions.array().contiguous();
  const std::int64_t* values = array.data<std::int64_t>();
  bool negative = false;
  for (std::int64_t i = 0; i < array.numel(); ++i) {
    if (values[i] < -size || values[i] >= size)
      throw IndexError("index: positions must be in [" + std::to_string(-size) + ", " + std::to_string(size) +
                       ") along axis " + std::to_string(axis) + " of shape " + shape.to_string() + "; got " +
                       std::to_string(values[i]) + " at element " + std::to_string(i) + " of the index");
    negative = negative || values[i] < 0;
  }
  return negative ? where(lt(positions, 0), positions + size, positions) : positions;
}

/// Applies items from left to right: what gives a view at once, tensors at the end, all together.
class Indexing {
 public:
  Indexing(const Tensor& x, const std::vector<IndexItem>& items) : whole_(x.shape()), result_(x) {
    int missing = x.rank();
    for (const IndexItem& item : items) missing -= axes_of(item);
    for (const IndexItem& item : items) std::visit([&](const auto& part) { apply(part, missing); }, item.item);
  }

  Tensor result() {
    if (positions_.empty()) return result_;
    Shape common;
    for (const Tensor& positions : positions_) common = broadcast_shapes("index", common, positions.shape());
    if (separated_) {
      Shape front;
      for (int i = 0; i < axes_.rank(); ++i) front.push_back(i);
      result_ = movedim(result_, axes_, front);
    }
    const int first = separated_ ? 0 : static_cast<int>(axes_[0]), last = first + axes_.rank();
    // One position in the axes together, counted in row-major order.
    const Shape& shape = result_.shape();
    Tensor together = positions_[0];
    for (std::size_t i = 1; i < positions_.size(); ++i)
      together = together * shape[first + static_cast<int>(i)] + positions_[i];
    Shape joined = shape.sub(0, first), expected = joined;
    joined.push_back(shape.sub(first, last).numel());
    for (const std::int64_t size : common) expected.push_back(size);
    for (int i = last; i < shape.rank(); ++i) joined.push_back(shape[i]), expected.push_back(shape[i]);
    const Tensor picked = index_select(reshape(result_, joined), first, reshape(expand(together, common), {-1}));
    return reshape(picked, expected);
  }

 private:
  void apply(std::int64_t position, int) {
    const std::int64_t size = result_.shape()[axis_];
    if (position < -size || position >= size)
      throw IndexError("index: a position must be in [" + std::to_string(-size) + ", " + std::to_string(size) +
                       ") along axis " + std::to_string(source_) + " of shape " + whole_.to_string() + "; got " +
                       std::to_string(position));
    result_ = select(result_, axis_, position);
    ++source_;
    join();
  }
  void apply(const Slice& range, int) {
    result_ = sliced(result_, axis_, range);
    pass(1);
  }
  void apply(Ellipsis, int missing) { pass(missing); }
  void apply(NewAxis, int) {
    result_ = unsqueeze(result_, axis_);
    pass(1);
    --source_;
  }
  void apply(const Tensor& tensor, int) {
    if (tensor.dtype() != boolean) return add(tensor);
    for (int i = 0; i < tensor.rank(); ++i)
      if (tensor.shape()[i] != result_.shape()[axis_ + i])
        throw ShapeError("index: a mask must have the sizes of the axes it stands for; got mask " +
                         tensor.shape().to_string() + " for axes " + std::to_string(source_) + " to " +
                         std::to_string(source_ + tensor.rank() - 1) + " of shape " + whole_.to_string());
    for (const Tensor& positions : unbind(nonzero(tensor), 1)) add(positions);
  }

  void add(const Tensor& positions) {
    positions_.push_back(counted_from_the_start(positions, result_.shape()[axis_], source_, whole_));
    axes_.push_back(axis_);
    ++axis_;
    ++source_;
    join();
  }
  /// An item that is no tensor and no integer: whatever comes later stands apart.
  void pass(int axes) {
    axis_ += axes;
    source_ += axes;
    ended_ = ended_ || joined_;
  }
  void join() {
    separated_ = separated_ || ended_;
    joined_ = true;
  }

  Shape whole_;
  Tensor result_;
  int axis_ = 0;    // of the result so far
  int source_ = 0;  // of x
  Tensors positions_;
  Shape axes_;
  bool joined_ = false, ended_ = false, separated_ = false;
};

}  // namespace

Tensor index(const Operand& x, const std::vector<IndexItem>& items) {
  check_items(x, items);
  return Indexing(x, items).result();
}

Tensor Tensor::index(const std::vector<IndexItem>& items, SourceLocation where) const {
  return tapegrad::index({*this, where}, items);
}

}  // namespace tapegrad
