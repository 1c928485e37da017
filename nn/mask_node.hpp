// What a mask is made of. Private to the library.
#pragma once
#include <tapegrad/nn/masks.hpp>

namespace tapegrad::nn {

struct Mask::Node {
  enum class Kind { leaf, complement, intersection, join };

  Kind kind;
  /// Of a leaf; one part of it is given.
  MaskParts parts;
  /// The number of keys that a leaf was made for, or -1.
  std::int64_t keys;
  std::shared_ptr<const Node> a, b;
};

/// The intersection that the mask is for `scores`, of which leading dimensions may be left out.
MaskParts parts_of(const Mask::Node& node, const Shape& scores);
/// Boolean, broadcasts to [..., queries, keys]. `queries` are the keys that stand at the queries'
/// places (i + S - L), and parts.allowed has the rows and columns that are asked for.
Tensor allowed_pairs(const MaskParts& parts, const Tensor& queries, const Tensor& keys);

}  // namespace tapegrad::nn
