#include <algorithm>

#include <fmt/format.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/nn/mask_node.hpp>

namespace tapegrad::nn {
namespace {

using Node = Mask::Node;
constexpr std::int64_t kCells = 32, kSamples = 4;

std::string padding_text(const Tensor& lengths) {
  if (lengths.numel() > 8) return fmt::format("padding(lengths {})", lengths.shape());
  return fmt::format("padding([{}])", fmt::join(lengths.to_vector<std::int64_t>(), ", "));
}

std::string describe(const Node& node) {
  if (node.kind == Node::Kind::intersection) {
    const auto part = [](const Node& x) { return x.kind == Node::Kind::join ? "(" + describe(x) + ")" : describe(x); };
    return part(*node.a) + " & " + part(*node.b);
  }
  if (node.kind == Node::Kind::join) return describe(*node.a) + " | " + describe(*node.b);
  if (node.kind == Node::Kind::complement) {
    const std::string inside = describe(*node.a);
    return inside.rfind("!padding", 0) == 0 && inside.find('&') == std::string::npos ? inside.substr(1)
                                                                                     : "!(" + inside + ")";
  }
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " & ") + part; };
  const MaskParts& parts = node.parts;
  if (parts.is_causal) add(node.keys < 0 ? "causal" : fmt::format("causal({})", node.keys));
  if (parts.window) add(fmt::format("window({}, {})", parts.window->left, parts.window->right));
  if (parts.key_lengths.defined()) add("!" + padding_text(parts.key_lengths));
  if (parts.allowed.defined()) add(fmt::format("tensor {}", parts.allowed.shape()));
  return text;
}

/// The lengths that a mask is made for, as far as its parts tell: {queries, keys}, -1 where they don't.
std::pair<std::int64_t, std::int64_t> known_lengths(const Node& node) {
  std::pair<std::int64_t, std::int64_t> known{-1, node.keys};
  if (const Tensor& allowed = node.parts.allowed; allowed.defined() && allowed.rank() > 0) {
    if (allowed.size(-1) != 1) known.second = allowed.size(-1);
    if (allowed.rank() > 1 && allowed.size(-2) != 1) known.first = allowed.size(-2);
  }
  if (const Tensor& lengths = node.parts.key_lengths; known.second < 0 && lengths.defined() && lengths.numel() > 0)
    known.second = static_cast<std::int64_t>(lengths.max().item());
  for (const auto& part : {node.a, node.b}) {
    if (!part) continue;
    const auto [queries, keys] = known_lengths(*part);
    known = {std::max(known.first, queries), std::max(known.second, keys)};
  }
  return known;
}

/// kSamples positions (or all) of every block, the last one again where the blocks go beyond the end.
Tensor sampled(std::int64_t length, std::int64_t block) {
  const std::int64_t samples = std::min(block, kSamples);
  std::vector<std::int64_t> positions;
  for (std::int64_t number = 0; length > 0 && number <= (length - 1) / block; ++number)
    for (std::int64_t i = 0; i < samples; ++i)
      positions.push_back(number * block + std::min(i * (block / samples), length - 1 - number * block));
  return from_vector(positions, {static_cast<std::int64_t>(positions.size())});
}

}  // namespace

std::string Mask::to_string() const {
  if (!defined()) return "mask: everything is allowed";
  auto [queries, keys] = known_lengths(*node_);
  if (keys < 0) keys = queries < 0 ? kCells : queries;
  return to_string(queries < 0 ? keys : queries, keys);
}

std::string Mask::to_string(std::int64_t queries, std::int64_t keys) const {
  const Shape scores{queries, keys};
  std::string text =
      fmt::format("mask: {}, {} queries x {} keys", defined() ? describe(*node_) : "everything", queries, keys);
  MaskParts parts = defined() ? parts_of(*node_, scores) : MaskParts();
  const std::int64_t block = std::max<std::int64_t>(1, std::max(queries, keys) - 1) / kCells + 1;
  const Tensor rows = sampled(queries, block), columns = sampled(keys, block);
  if (parts.allowed.defined()) {
    const Tensor whole = expand(parts.allowed, broadcast_shapes("mask", parts.allowed.shape(), scores));
    parts.allowed = index_select(index_select(whole, -2, rows), -1, columns);
  }
  Tensor allowed = allowed_pairs(parts, rows + (keys - queries), columns);
  allowed = expand(allowed, broadcast_shapes("mask", allowed.shape(), {rows.numel(), columns.numel()}));
  if (allowed.numel() > rows.numel() * columns.numel())
    text += fmt::format(", the first item of {}", allowed.shape().sub(0, allowed.rank() - 2));
  if (allowed.numel() == 0) return text;
  while (allowed.rank() > 2) allowed = allowed.select(0, 0);

  const std::int64_t samples = std::min(block, kSamples), width = columns.numel() / samples;
  const std::vector<double> parts_allowed =
      allowed.to(float32).reshape({rows.numel() / samples, samples, width, samples}).mean({1, 3}).to_vector<double>();
  for (std::size_t i = 0; i < parts_allowed.size(); ++i) {
    constexpr const char* kShades[] = {"░", "▒", "▓"};
    if (i % static_cast<std::size_t>(width) == 0) text += '\n';
    const double part = parts_allowed[i];
    text += part == 0 ? "·" : part == 1 ? "█" : kShades[static_cast<int>(part * 3)];
  }
  return text;
}

}  // namespace tapegrad::nn
