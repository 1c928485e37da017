#include <tapegrad/nn/attention.hpp>

#include <algorithm>
#include <cmath>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/core/scope.hpp>
#include <tapegrad/nn/attention_paths.hpp>

namespace tapegrad::nn {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

/// How many heads of the query read one head of the key.
std::int64_t checked_group(const Tensor& query, const Tensor& key, const Tensor& value) {
  for (const auto& [what, x] : {std::pair{"query", &query}, {"key", &key}, {"value", &value}})
    require<ShapeError>(x->rank() >= 3,
                        "{}: with enable_gqa {} must have a dimension of heads, [..., heads, length, width]; got {}",
                        kName, what, x->shape());
  const std::int64_t heads = query.size(-3), key_heads = key.size(-3);
  require<ShapeError>(value.size(-3) == key_heads,
                      "{}: with enable_gqa value must have as many heads as key; got value {} and key {}", kName,
                      value.shape(), key.shape());
  require<ShapeError>(key_heads != 0 && heads % key_heads == 0,
                      "{}: with enable_gqa the query's heads must be a multiple of the key's; got {} and {}, of query "
                      "{} and key {}; choose a number of key heads that divides {}",
                      kName, heads, key_heads, query.shape(), key.shape(), heads);
  return heads / key_heads;
}

/// `shape`, broadcast with the leading dimensions of x, each of whose heads counts for `group`.
Shape broadcast_leading(const char* what, const Tensor& x, std::int64_t group, const Shape& shape) {
  Shape own = leading(x);
  if (group > 1) own[own.rank() - 1] *= group;
  try {
    return broadcast_shapes(kName, own, shape);
  } catch (const ShapeError&) {
    throw ShapeError(fmt::format("{}: leading dimensions must broadcast; got {} {} beside leading dimensions {}", kName,
                                 what, x.shape(), shape));
  }
}

void check_key_lengths(const Tensor& lengths, const Shape& scores) {
  require<DtypeError>(
      lengths.dtype() == int64,
      "{}: key_lengths must be int64, a number of keys for each item; got {}; convert with .to(tapegrad::int64)", kName,
      lengths.dtype());
  const Shape items = leading(scores);
  require<ShapeError>(is_broadcastable_to(lengths.shape(), items),
                      "{}: key_lengths must broadcast to the leading dimensions {} of the scores {}; got {}; lengths "
                      "[N] of items with heads are passed as [N, 1]",
                      kName, items, scores, lengths.shape());
  const auto values = lengths.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    require(values[i] >= 0 && values[i] <= scores.back(),
            "{}: key_lengths must be in [0, {}], the number of keys; got {} at {}", kName, scores.back(), values[i], i);
}

void check_options(const AttentionOptions& options, Dtype dtype, const Shape& scores) {
  if (const Tensor& bias = options.bias; bias.defined()) {
    require<ShapeError>(is_broadcastable_to(bias.shape(), scores),
                        "{}: bias must broadcast to the scores, [..., queries, keys] = {}; got {}", kName, scores,
                        bias.shape());
    require<DtypeError>(
        bias.dtype() == dtype,
        "{}: bias is added to the scores and must be {} as query is; got {}; what allows or blocks is passed as mask",
        kName, dtype, bias.dtype());
  }
  if (options.key_lengths.defined()) check_key_lengths(options.key_lengths, scores);
  if (options.scale) require(std::isfinite(*options.scale), "{}: scale must be finite; got {}", kName, *options.scale);
  require(options.dropout_p >= 0 && options.dropout_p <= 1, "{}: dropout_p must be in [0, 1]; got {}", kName,
          options.dropout_p);
}

/// Checks the operands and returns the shape of the scores, [..., L, S].
Shape checked_scores(const Tensor& query, const Tensor& key, const Tensor& value, bool grouped) {
  check_operands(kName, query, key, value);
  require<ShapeError>(
      key.size(-1) == query.size(-1),
      "{}: key must be as wide as query, since scores are their products; got key {} and query {}; project one of them",
      kName, key.shape(), query.shape());
  const std::int64_t group = grouped ? checked_group(query, key, value) : 1;
  Shape scores = broadcast_leading("key", key, group, leading(query));
  broadcast_leading("value", value, group, scores);
  scores.push_back(query.size(-2));
  scores.push_back(key.size(-2));
  return scores;
}

/// What an error says, without the path of the module, which stands in front of the next error again.
std::string words_of(const Error& error) {
  const std::string path = core::Scope::path(), text = error.what();
  return path.empty() ? text : text.substr(path.size() + 2);
}

/// All that hides pairs, as one intersection.
MaskParts visible(const AttentionOptions& options, const Shape& scores) {
  const Mask others(
      MaskParts{.is_causal = options.is_causal, .window = options.window, .key_lengths = options.key_lengths});
  try {
    return (options.mask & others).parts(scores);
  } catch (const ShapeError& error) {
    throw ShapeError(fmt::format("{}: {}", kName, words_of(error)));
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{}: {}", kName, words_of(error)));
  }
}

core::kernels::Band band_of(const MaskParts& parts) {
  core::kernels::Band band;
  if (parts.window) band = {std::max(band.lower, -parts.window->left), std::min(band.upper, parts.window->right)};
  if (parts.is_causal) band.upper = std::min<std::int64_t>(band.upper, 0);
  return band;
}

/// With at least the two dimensions of the scores.
Tensor as_matrix(Tensor x) {
  while (x.defined() && x.rank() < 2) x = unsqueeze(x, 0);
  return x;
}

/// Dimension `axis` (from the end), the heads, becomes two: those of the key, and the members of each group.
Tensor in_groups(const Tensor& x, int axis, std::int64_t key_heads) {
  if (!x.defined() || x.rank() < -axis) return x;
  if (x.size(axis) == 1) return unsqueeze(x, axis);
  Shape shape = x.shape();
  const int at = x.rank() + axis;
  shape[at] = key_heads;
  shape.insert(at + 1, x.size(axis) / key_heads);
  return reshape(x, shape);
}

AttentionCall prepared(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
                       const Shape& scores) {
  const MaskParts parts = visible(options, scores);
  const double width = static_cast<double>(std::max<std::int64_t>(1, query.size(-1)));
  AttentionCall call{query,
                     key,
                     value,
                     as_matrix(options.bias),
                     as_matrix(parts.allowed),
                     parts.key_lengths,
                     band_of(parts),
                     options.scale.value_or(1.0 / std::sqrt(width)),
                     options.dropout_p,
                     scores,
                     leading(scores)};
  if (!options.enable_gqa) return call;
  const std::int64_t heads = key.size(-3);
  for (Tensor* x : {&call.query, &call.bias, &call.mask}) *x = in_groups(*x, -3, heads);
  call.key_lengths = in_groups(call.key_lengths, -1, heads);
  call.key = unsqueeze(key, -3);
  call.value = unsqueeze(value, -3);
  call.scores[call.scores.rank() - 3] /= heads;
  call.scores.insert(call.scores.rank() - 3, heads);
  return call;
}

/// in_groups undone.
Tensor merged(const Tensor& x, bool grouped) { return grouped && x.defined() ? flatten(x, -4, -3) : x; }

/// The values' leading dimensions are more than those of the scores: one weight, and one draw of dropout, is for many.
bool has_more_values(const AttentionCall& call) {
  return !is_broadcastable_to(leading(call.value), leading(call.scores));
}

/// Number `number` in row-major order of what has the leading dimensions `items`, or broadcasts to them.
Tensor item(const Tensor& x, Shape items, std::int64_t number, int trailing = 2) {
  if (!x.defined()) return x;
  const int rank = items.rank();
  for (int axis = x.rank() - trailing; axis < x.rank(); ++axis) items.push_back(x.size(axis));
  Tensor result = expand(x, items);
  for (int axis = rank - 1; axis >= 0; --axis) {
    result = select(result, axis, number % items[axis]);
    number /= items[axis];
  }
  return result;
}

/// The call for some rows of one item, without values.
AttentionCall rows_of(const AttentionCall& call, std::int64_t number, std::int64_t first, std::int64_t rows) {
  const Shape items = leading(call.scores);
  const std::int64_t queries = call.query.size(-2);
  AttentionCall part = call;
  for (Tensor* x : {&part.query, &part.bias, &part.mask}) {
    *x = item(*x, items, number);
    if (x->defined() && x->size(0) == queries) *x = narrow(*x, 0, first, rows);
  }
  part.key = item(call.key, items, number);
  part.key_lengths = item(call.key_lengths, items, number, 0);
  const std::int64_t shift = first + rows - queries;  // the last of the rows stands at the last key no more
  part.band = {call.band.lower + shift, call.band.upper + shift};
  part.scores = {rows, call.scores.back()};
  return part;
}

void check_inside(const char* what, std::int64_t first, std::int64_t count, std::int64_t size) {
  if (first < 0 || count < 0 || first > size - count)
    throw IndexError(fmt::format("weights_of: {} must be in [0, {}), which is what there is; got {}", what, size,
                                 count == 1 ? fmt::format("{}", first) : fmt::format("{} from {} on", count, first)));
}

}  // namespace

void check_operands(const char* operation, const Tensor& query, const Tensor& key, const Tensor& value) {
  for (const auto& [what, x] : {std::pair{"query", &query}, {"key", &key}, {"value", &value}}) {
    if (!x->defined()) autograd::fail_undefined(fmt::format("{}: {}", operation, what).c_str());
    require<ShapeError>(x->rank() >= 2, "{}: {} must have at least two dimensions, [..., length, width]; got {}",
                        operation, what, x->shape());
    require<DtypeError>(
        is_floating(x->dtype()) && x->dtype() == query.dtype(),
        "{}: query, key and value must have one floating dtype; got {} {} beside query {}; convert with .to()",
        operation, what, x->dtype(), query.dtype());
  }
  require<ShapeError>(value.size(-2) == key.size(-2),
                      "{}: value must be as long as key, one value for each key; got value {} and key {}", operation,
                      value.shape(), key.shape());
}

Tensor AttentionResult::weights_of(std::int64_t batch, std::int64_t head, std::int64_t first_row,
                                   std::int64_t rows) const {
  require(weights.defined() || call, "weights_of: this result was not made by an attention");
  const Shape items = weights.defined() ? leading(weights) : call->items;
  const std::int64_t heads = items.rank() > 1 ? items.back() : 1;
  check_inside("head", head, 1, heads);
  check_inside("batch", batch, 1, items.numel() / heads);
  check_inside("rows", first_row, rows, weights.defined() ? weights.size(-2) : call->query.size(-2));
  const std::int64_t number = batch * heads + head;
  if (weights.defined()) return narrow(item(weights, items, number), 0, first_row, rows);
  return composed_weights(rows_of(*call, number, first_row, rows));
}

AttentionResult scaled_dot_product_attention(const Operand& query, const Tensor& key, const Tensor& value,
                                             const AttentionOptions& options) {
  const Shape scores = checked_scores(query, key, value, options.enable_gqa);
  check_options(options, query.dtype(), scores);
  const auto call = std::make_shared<const AttentionCall>(prepared(query, key, value, options, scores));
  const bool grouped = options.enable_gqa;
  if (options.need_weights) {
    const AttentionResult result = composed_attention(*call);
    return {merged(result.output, grouped), merged(result.weights, grouped)};
  }
  const bool composed = call->dropout > 0 && has_more_values(*call);
  return {merged(composed ? composed_attention(*call).output : fused_attention(call), grouped), Tensor(), call};
}

AttentionResult scaled_dot_product_attention(const Operand& query, const Tensor& key, const Tensor& value,
                                             const Mask& mask) {
  return scaled_dot_product_attention(query, key, value, {.mask = mask});
}

}  // namespace tapegrad::nn
