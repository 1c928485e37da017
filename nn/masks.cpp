#include <tapegrad/nn/masks.hpp>

#include <algorithm>
#include <limits>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/nn/mask_node.hpp>

namespace tapegrad::nn {
namespace {

using Node = Mask::Node;
using NodePointer = std::shared_ptr<const Node>;

NodePointer leaf(const MaskParts& parts, std::int64_t keys = -1) {
  return std::make_shared<const Node>(Node{Node::Kind::leaf, parts, keys, {}, {}});
}

NodePointer combined(Node::Kind kind, NodePointer a, NodePointer b = {}) {
  return std::make_shared<const Node>(Node{kind, {}, -1, std::move(a), std::move(b)});
}

NodePointer complement(const NodePointer& node) {
  return node->kind == Node::Kind::complement ? node->a : combined(Node::Kind::complement, node);
}

MaskParts intersection(MaskParts a, const MaskParts& b) {
  const auto both = [](Tensor& x, const Tensor& y, Tensor (*combine)(const Operand&, const Operand&)) {
    if (y.defined()) x = x.defined() ? combine(x, y) : y;
  };
  a.is_causal |= b.is_causal;
  if (b.window)
    a.window = !a.window ? *b.window
                         : Window(std::min(a.window->left, b.window->left), std::min(a.window->right, b.window->right));
  both(a.key_lengths, b.key_lengths, minimum);
  both(a.allowed, b.allowed, logical_and);
  return a;
}

void check_lengths(const char* operation, const Tensor& lengths, std::int64_t limit) {
  autograd::check_defined(operation, lengths);
  const auto values = lengths.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    require(values[i] >= 0 && values[i] <= limit,
            "{}: lengths must be in [0, {}], the number of keys; got lengths[{}] = {}", operation, limit, i, values[i]);
}

/// The last dimensions of x broadcast to the last ones of `shape`.
void check_broadcast(const char* what, const Tensor& x, const Shape& shape, const Shape& scores) {
  const int rank = std::min(x.rank(), shape.rank());
  require<ShapeError>(
      is_broadcastable_to(x.shape().sub(x.rank() - rank, x.rank()), shape.sub(shape.rank() - rank, shape.rank())),
      "mask: {} must broadcast to {}, for scores [..., queries, keys] = {}; got {}", what, shape, scores, x.shape());
}

/// The mask was made for such scores, [..., queries, keys].
void check_fit(const Node& leaf, const Shape& scores) {
  const std::int64_t keys = scores.back(), queries = scores[scores.rank() - 2];
  require<ShapeError>(leaf.keys < 0 || (leaf.keys == keys && (!leaf.parts.is_causal || queries <= keys)),
                      "mask: {} {} keys{}; got {} queries and {} keys; make it for these lengths",
                      leaf.parts.is_causal ? "causal was made for" : "padding was made for", leaf.keys,
                      leaf.parts.is_causal ? " and at most as many queries" : "", queries, keys);
  if (const Tensor& lengths = leaf.parts.key_lengths; lengths.defined()) {
    check_lengths("mask", lengths, keys);
    check_broadcast("key lengths", lengths, scores.sub(0, scores.rank() - 2), scores);
  }
  if (leaf.parts.allowed.defined()) check_broadcast("it", leaf.parts.allowed, scores, scores);
}

/// Boolean, broadcasts to the scores.
Tensor dense(const Node& node, const Shape& scores) {
  const std::int64_t keys = scores.back(), queries = scores[scores.rank() - 2];
  return allowed_pairs(parts_of(node, scores), arange(queries) + (keys - queries), arange(keys));
}

NodePointer for_heads(const NodePointer& node) {
  if (!node) return {};
  Node changed = *node;
  for (const auto& [part, rank] : {std::pair{&changed.parts.key_lengths, 1}, {&changed.parts.allowed, 3}})
    if (part->defined() && part->rank() == rank) *part = unsqueeze(*part, 1);
  changed.a = for_heads(node->a);
  changed.b = for_heads(node->b);
  return std::make_shared<const Node>(std::move(changed));
}

void check_length(const char* operation, const char* what, std::int64_t length) {
  require(length >= 0, "{}: {} must not be negative; got {}", operation, what, length);
}

}  // namespace

MaskParts parts_of(const Node& node, const Shape& scores) {
  switch (node.kind) {
    case Node::Kind::leaf: check_fit(node, scores); return node.parts;
    case Node::Kind::intersection: return intersection(parts_of(*node.a, scores), parts_of(*node.b, scores));
    case Node::Kind::complement: return {.allowed = logical_not(dense(*node.a, scores))};
    case Node::Kind::join: break;
  }
  return {.allowed = logical_or(dense(*node.a, scores), dense(*node.b, scores))};
}

Tensor allowed_pairs(const MaskParts& parts, const Tensor& queries, const Tensor& keys) {
  Tensor allowed = parts.allowed.defined() ? parts.allowed.to(boolean) : ones({1, 1}, boolean);
  if (parts.key_lengths.defined())
    allowed = logical_and(allowed, lt(keys, unsqueeze(unsqueeze(parts.key_lengths, -1), -1)));
  if (!parts.is_causal && !parts.window) return allowed;
  const Tensor distance = keys - unsqueeze(queries, 1);
  if (parts.is_causal) allowed = logical_and(allowed, le(distance, 0));
  if (parts.window)
    allowed = logical_and(allowed, logical_and(ge(distance, -parts.window->left), le(distance, parts.window->right)));
  return allowed;
}

Window::Window(std::int64_t left_side, std::int64_t right_side) : left(left_side), right(right_side) {
  check_length("window", "its left side", left);
  check_length("window", "its right side", right);
}

Mask::Mask(const Tensor& allowed) : Mask(MaskParts{.allowed = allowed}) {}

Mask::Mask(const MaskParts& parts) {
  for (const Tensor& x : {parts.allowed, parts.key_lengths})
    require<GradError>(!x.defined() || !x.requires_grad(),
                       "mask: a mask has no gradient; got a tensor that requires it; pass scores to add as bias");
  if (const Tensor& allowed = parts.allowed; allowed.defined() && is_floating(allowed.dtype()))
    require(all(isfinite(allowed)).item() == 1,
            "mask: what is nonzero is allowed, and must be finite; got an infinity or NaN in {} {}; what is added to "
            "the scores, as -infinity, is passed as bias",
            allowed.dtype(), allowed.shape());
  if (const Tensor& lengths = parts.key_lengths; lengths.defined())
    require<DtypeError>(lengths.dtype() == int64, "mask: key lengths must be int64; got {}", lengths.dtype());
  if (parts.is_causal || parts.window || parts.key_lengths.defined() || parts.allowed.defined()) node_ = leaf(parts);
}

MaskParts Mask::parts(const Shape& scores) const {
  require<ShapeError>(scores.rank() >= 2, "mask: scores must be [..., queries, keys]; got {}", scores);
  const MaskParts parts = defined() ? parts_of(*node_, scores) : MaskParts();
  for (const auto& [x, rank] : {std::pair{parts.allowed, scores.rank()}, {parts.key_lengths, scores.rank() - 2}})
    if (x.defined())
      require<ShapeError>(x.rank() <= rank, "mask: it must broadcast to the scores, [..., queries, keys] = {}; got {}",
                          scores, x.shape());
  return parts;
}

Tensor Mask::to_tensor(std::int64_t queries, std::int64_t keys) const {
  check_length("mask", "queries", queries);
  check_length("mask", "keys", keys);
  const Shape scores{queries, keys};
  const Tensor allowed = defined() ? dense(*node_, scores) : ones({1, 1}, boolean);
  return expand(allowed, broadcast_shapes("mask", allowed.shape(), scores));
}

Mask Mask::with_head_dimension() const { return Mask(for_heads(node_)); }

Mask operator&(const Mask& a, const Mask& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return Mask(combined(Node::Kind::intersection, a.node_, b.node_));
}

Mask operator|(const Mask& a, const Mask& b) {
  if (!a.defined() || !b.defined()) return Mask();
  return Mask(combined(Node::Kind::join, a.node_, b.node_));
}

Mask Mask::operator!() const {
  require(defined(), "mask: the complement of an undefined mask would block everything");
  return Mask(complement(node_));
}

Mask causal(std::int64_t length) {
  check_length("causal", "length", length);
  return Mask(leaf({.is_causal = true}, length));
}

Mask window(std::int64_t size) { return Mask(MaskParts{.window = Window(size)}); }
Mask window(std::int64_t left, std::int64_t right) { return Mask(MaskParts{.window = Window(left, right)}); }

Mask padding(const Tensor& lengths, std::optional<std::int64_t> length) {
  const Mask real(MaskParts{.key_lengths = lengths});
  check_length("padding", "length", length.value_or(0));
  check_lengths("padding", lengths, length.value_or(std::numeric_limits<std::int64_t>::max()));
  return Mask(complement(leaf({.key_lengths = lengths}, length.value_or(-1))));
}

Mask padding(const std::vector<std::int64_t>& lengths, std::optional<std::int64_t> length) {
  return padding(from_vector(lengths, {static_cast<std::int64_t>(lengths.size())}), length);
}

Tensor create_causal_mask(std::int64_t length) {
  check_length("create_causal_mask", "length", length);
  return causal(length).to_tensor(length, length);
}

Tensor create_padding_mask(const std::vector<std::int64_t>& lengths, std::int64_t max_length) {
  check_length("create_padding_mask", "max_length", max_length);
  const Tensor limits = from_vector(lengths, {static_cast<std::int64_t>(lengths.size()), 1});
  check_lengths("create_padding_mask", limits, max_length);
  const Tensor real = lt(arange(max_length), limits);  // [items, max_length]
  return logical_and(unsqueeze(real, 2), unsqueeze(real, 1));
}

Tensor create_bidirectional_mask(std::int64_t length) {
  check_length("create_bidirectional_mask", "length", length);
  return ones({length, length}, boolean);
}

}  // namespace tapegrad::nn
