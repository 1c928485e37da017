#include <tapegrad/nn/masks.hpp>

#include <fmt/format.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/shaping.hpp>

namespace tapegrad::nn {
namespace {

void check_length(const char* operation, const char* what, std::int64_t length) {
  if (length < 0) throw ValueError(fmt::format("{}: {} must not be negative; got {}", operation, what, length));
}

}  // namespace

Tensor create_causal_mask(std::int64_t length) {
  check_length("create_causal_mask", "length", length);
  const Tensor position = arange(length);
  return ge(unsqueeze(position, 1), position);
}

Tensor create_padding_mask(const std::vector<std::int64_t>& lengths, std::int64_t max_length) {
  check_length("create_padding_mask", "max_length", max_length);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] < 0 || lengths[i] > max_length)
      throw ValueError(fmt::format("create_padding_mask: lengths must be in [0, max_length = {}]; got lengths[{}] = {}",
                                   max_length, i, lengths[i]));
  const auto items = static_cast<std::int64_t>(lengths.size());
  const Tensor real = lt(arange(max_length), from_vector(lengths, {items, 1}));  // [items, max_length]
  return logical_and(unsqueeze(real, 2), unsqueeze(real, 1));
}

Tensor create_bidirectional_mask(std::int64_t length) {
  check_length("create_bidirectional_mask", "length", length);
  return ones({length, length}, boolean);
}

}  // namespace tapegrad::nn
