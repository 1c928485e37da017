#include <tapegrad/core/kernels/attention_heads.hpp>

#include <algorithm>

namespace tapegrad::core::kernels {

Array in_the_order_of(const Array& pattern, const Shape& shape) {
  const int rank = shape.rank();
  Shape axes, sizes, places = Shape::filled(rank, 0);
  for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  std::stable_sort(axes.begin(), axes.end(), [&](std::int64_t a, std::int64_t b) {
    return pattern.strides()[static_cast<int>(a)] > pattern.strides()[static_cast<int>(b)];
  });
  for (int i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(axes[i]);
    sizes.push_back(shape[axis]);
    places[axis] = i;
  }
  if (axes[rank - 1] != rank - 1) return Array(shape, pattern.dtype());
  return Array(sizes, pattern.dtype()).permuted(places);
}

Array with_adjacent_columns(const Array& array) {
  const int last = array.rank() - 1;
  return array.size(last) == 1 || array.strides()[last] == 1 ? array : array.copy();
}

Heads::Heads(AttentionInputs inputs)
    : inputs_(std::move(inputs)),
      batch_(inputs_.query.shape().sub(0, inputs_.query.rank() - 2)),
      count_(batch_.numel()) {
  inputs_.query = with_adjacent_columns(inputs_.query);
  inputs_.key = with_adjacent_columns(inputs_.key);
  inputs_.value = with_adjacent_columns(inputs_.value);
  if (inputs_.bias.defined()) inputs_.bias = inputs_.bias.expanded(scores());
}

Shape Heads::scores() const {
  Shape shape = batch_;
  shape.push_back(queries());
  shape.push_back(keys());
  return shape;
}

std::vector<std::vector<std::int64_t>> Heads::sharing(const Array& shared) const {
  const int rank = shared.rank();
  const std::int64_t size = std::max<std::int64_t>(1, shared.size(rank - 2) * shared.size(rank - 1));
  std::vector<std::vector<std::int64_t>> lists(static_cast<std::size_t>(shared.numel() / size));
  const Strides strides = shared.expanded(scores()).strides();
  for (std::int64_t h = 0; h < count_ && !lists.empty(); ++h)
    lists[static_cast<std::size_t>(batch_offset(h, batch_, strides) / size)].push_back(h);
  return lists;
}

std::int64_t Heads::heads_per_task() const {
  constexpr double kProducts = 1e5;  // enough to be worth a thread
  const double products = static_cast<double>(queries()) * static_cast<double>(keys()) *
                          static_cast<double>(inputs_.query.shape().back() + inputs_.value.shape().back());
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kProducts / std::max(1.0, products)));
}

}  // namespace tapegrad::core::kernels
