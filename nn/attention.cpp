#include <tapegrad/nn/attention.hpp>

#include <cmath>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/nn/composed_attention.hpp>
#include <tapegrad/nn/fused_attention.hpp>

namespace tapegrad::nn {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

Shape leading(const Tensor& x) { return x.shape().sub(0, x.rank() - 2); }

void check_operand(const char* what, const Tensor& x, const Tensor& query) {
  if (x.rank() < 2)
    throw ShapeError(
        fmt::format("{}: {} must have at least two dimensions, [..., length, width]; got {}", kName, what, x.shape()));
  if (!is_floating(x.dtype()) || x.dtype() != query.dtype())
    throw DtypeError(fmt::format(
        "{}: query, key and value must have one floating dtype; got {} {} beside query {}; convert with .to()", kName,
        what, x.dtype(), query.dtype()));
}

Shape broadcast_leading(const char* what, const Tensor& x, const Shape& shape) {
  try {
    return broadcast_shapes(kName, leading(x), shape);
  } catch (const ShapeError&) {
    throw ShapeError(fmt::format("{}: leading dimensions must broadcast; got {} {} beside leading dimensions {}", kName,
                                 what, x.shape(), shape));
  }
}

/// Checks everything and returns the shape of the scores, [..., L, S].
Shape check(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  check_operand("query", query, query);
  check_operand("key", key, query);
  check_operand("value", value, query);
  if (key.size(-1) != query.size(-1))
    throw ShapeError(
        fmt::format("{}: key must be as wide as query, since scores are their products; got key {} and query {}; "
                    "project one of them",
                    kName, key.shape(), query.shape()));
  if (value.size(-2) != key.size(-2))
    throw ShapeError(fmt::format("{}: value must be as long as key, one value for each key; got value {} and key {}",
                                 kName, value.shape(), key.shape()));
  Shape scores = broadcast_leading("key", key, leading(query));
  broadcast_leading("value", value, scores);
  scores.push_back(query.size(-2));
  scores.push_back(key.size(-2));
  for (const auto& [what, x] : {std::pair{"mask", options.mask.parts(scores).allowed}, {"bias", options.bias}})
    if (x.defined() && !is_broadcastable_to(x.shape(), scores))
      throw ShapeError(fmt::format("{}: {} must broadcast to the scores, [..., queries, keys] = {}; got {}", kName,
                                   what, scores, x.shape()));
  if (options.bias.defined() && options.bias.dtype() != query.dtype())
    throw DtypeError(fmt::format(
        "{}: bias is added to the scores and must be {} as query is; got {}; what allows or blocks is passed as mask",
        kName, query.dtype(), options.bias.dtype()));
  if (options.scale && !std::isfinite(*options.scale))
    throw ValueError(fmt::format("{}: scale must be finite; got {}", kName, *options.scale));
  if (!(options.dropout_p >= 0 && options.dropout_p <= 1))
    throw ValueError(fmt::format("{}: dropout_p must be in [0, 1]; got {}", kName, options.dropout_p));
  return scores;
}

/// The values' leading dimensions are more than those of the scores: one weight, and one draw of dropout, is for many.
bool has_more_values(const Tensor& value, const Shape& scores) {
  return !is_broadcastable_to(leading(value), scores.sub(0, scores.rank() - 2));
}

/// The mask as one tensor; one that is a tensor already stays that tensor.
AttentionOptions with_dense_mask(AttentionOptions options, const Shape& scores) {
  const MaskParts parts = options.mask.parts(scores);
  if (parts.is_causal || parts.window || parts.key_lengths.defined())
    options.mask = options.mask.to_tensor(scores[scores.rank() - 2], scores.back());
  else
    options.mask = parts.allowed;
  return options;
}

}  // namespace

AttentionResult scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const AttentionOptions& given) {
  const Shape shape = check(query, key, value, given);
  const AttentionOptions options = with_dense_mask(given, shape);
  if (options.need_weights || options.bias.defined() || (options.dropout_p > 0 && has_more_values(value, shape)))
    return composed_attention(query, key, value, options, shape);
  return {fused_attention(query, key, value, options, shape), Tensor()};
}

AttentionResult scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                             const Mask& mask) {
  return scaled_dot_product_attention(query, key, value, {.mask = mask});
}

}  // namespace tapegrad::nn
