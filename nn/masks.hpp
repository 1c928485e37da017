// Masks of attention: which query may see which key. Nonzero allows, zero blocks, whatever the dtype.
#pragma once
#include <memory>
#include <optional>

#include <tapegrad/autograd/tensor.hpp>

namespace tapegrad::nn {

/// Of L queries and S keys, query i sees the keys j with -left <= j - (i + S - L) <= right: aligned bottom right, so
/// that the last query stands at the last key. ValueError if a side is negative.
struct Window {
  Window(std::int64_t size) : Window(size, size) {}
  Window(std::int64_t left, std::int64_t right);
  friend bool operator==(const Window&, const Window&) = default;

  std::int64_t left, right;
};

/// What a mask allows for given lengths: a pair that every part allows. A default-made one allows all.
struct MaskParts {
  bool is_causal = false;
  std::optional<Window> window = {};
  /// int64, of the leading dimensions of the scores (or broadcasting to them): item n sees the keys 0 ...
  /// key_lengths[n] - 1.
  Tensor key_lengths = {};
  /// Nonzero allows; broadcasts to [..., L, S].
  Tensor allowed = {};
};

/// Which pairs of query and key are allowed: a tensor, or something made by `causal`, `window` and `padding`, combined
/// by & (both allow), | (one allows) and ! (the opposite). What is an intersection of causal masks, windows and key
/// lengths stays one: attention leaves out what it hides, and no tensor of queries x keys is made. A default-made mask
/// is undefined: it allows everything.
class Mask {
 public:
  Mask() = default;
  /// Nonzero allows; broadcasts to [..., L, S]. GradError if the tensor requires a gradient: a mask has none.
  /// ValueError for NaN and infinities: such a tensor was meant to be added, as a bias.
  Mask(const Tensor& allowed);
  explicit Mask(const MaskParts& parts);

  bool defined() const { return static_cast<bool>(node_); }
  /// Boolean [..., L, S], true where `queries` L may see `keys` S. ShapeError if the mask was made for other lengths.
  Tensor to_tensor(std::int64_t queries, std::int64_t keys) const;
  /// The intersection that this mask is for `scores`, [..., L, S]. Unions, and complements of anything but padding,
  /// are in `allowed`, made for the call. ShapeError if the mask does not fit.
  MaskParts parts(const Shape& scores) const;
  /// For scores [batch, heads, L, S], the mask of scores [batch, L, S]: tensors of rank 3 and lengths of rank 1 get a
  /// dimension of size 1 for the heads; those of other ranks are as they were.
  Mask with_head_dimension() const;

  /// Undefined masks allow everything, so that they leave the other one as it is.
  friend Mask operator&(const Mask& a, const Mask& b);
  /// Undefined if one of the two is.
  friend Mask operator|(const Mask& a, const Mask& b);
  /// ValueError if the mask is undefined.
  Mask operator!() const;

  /// What it is made of, and a picture of at most 32 x 32 characters: a full block is allowed, a dot blocked; in a
  /// larger mask a character stands for a square of pairs and its shade for the part that is allowed, judged by a
  /// sample. Of several items the first is shown. The lengths are those that the mask is known to be made for.
  std::string to_string() const;
  std::string to_string(std::int64_t queries, std::int64_t keys) const;

  struct Node;

 private:
  explicit Mask(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  friend Mask causal(std::int64_t length);
  friend Mask padding(const Tensor& lengths, std::optional<std::int64_t> length);

  std::shared_ptr<const Node> node_;
};

/// For `length` keys, and as many queries or fewer: a query sees its own position and those before it, aligned bottom
/// right. The option `is_causal` is the same without a length.
Mask causal(std::int64_t length);
/// Keys no further than `size` away, for any lengths; `causal(n) & window(w)` looks back only.
Mask window(std::int64_t size);
Mask window(std::int64_t left, std::int64_t right);
/// The padded keys: in item n those from lengths[n] on, so that `!padding(lengths)` keeps the real tokens; all queries
/// see the same (create_padding_mask blanks the padded queries too). `lengths` is int64, [N] for scores [N, L, S]; for
/// [N, heads, L, S] give [N, 1], or call with_head_dimension() as the layers do. With `length`, the number of keys is
/// checked. ValueError names a length that is negative or above the number of keys.
Mask padding(const Tensor& lengths, std::optional<std::int64_t> length = {});
Mask padding(const std::vector<std::int64_t>& lengths, std::optional<std::int64_t> length = {});

/// [length, length], true on and below the diagonal: a position attends to itself and to those before it.
Tensor create_causal_mask(std::int64_t length);
/// [lengths.size(), max_length, max_length]: in item i the first lengths[i] positions attend to one another, and
/// nothing else is allowed. ValueError names a length outside [0, max_length].
Tensor create_padding_mask(const std::vector<std::int64_t>& lengths, std::int64_t max_length);
/// [length, length], all true.
Tensor create_bidirectional_mask(std::int64_t length);

}  // namespace tapegrad::nn
