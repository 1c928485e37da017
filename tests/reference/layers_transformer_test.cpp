// Encoder and decoder layers against PyTorch's: outputs, and gradients of inputs and parameters.
#include <gtest/gtest.h>

#include <functional>
#include <tapegrad/nn/torch_names.hpp>
#include <tapegrad/nn/transformer_layers.hpp>

#include "reference/cases.hpp"

namespace tapegrad::reference {
namespace {

/// Three ways to say that only the first `lengths` keys of an item are real.
enum class Padding { by_mask, by_key_padding_mask, by_key_lengths };

/// What may be attended to: a mask of queries x keys, and how many of an item's keys are real.
nn::AttendOptions attend_options(const Json& at, std::int64_t keys, Padding padding) {
  nn::AttendOptions options;
  if (!at["mask"].is_null()) options.mask = tensor_of(at["mask"]);
  if (at["lengths"].is_null()) return options;
  const Tensor lengths = from_vector(at["lengths"].get<std::vector<std::int64_t>>(), {2});
  if (padding == Padding::by_mask) options.mask = options.mask & !nn::padding(lengths);
  if (padding == Padding::by_key_padding_mask) options.key_padding_mask = lt(arange(keys), lengths.unsqueeze(1));
  if (padding == Padding::by_key_lengths) options.key_lengths = lengths;
  return options;
}

/// Under tapegrad's names.
StateDict entries_of(const Json& tensors) {
  StateDict entries;
  for (const auto& [name, value] : tensors.items()) entries.set(name, tensor_of(value));
  return nn::from_torch_names(entries);
}

template <class Model, class Call>
void compare(const Json& one, Model model, const Call& call) {
  model.to(float64);
  model.train(one["train"].get<bool>());
  model.load_state_dict(entries_of(one["parameters"]));
  std::vector<NamedTensor> all = model.named_parameters();
  for (const auto& [name, value] : one["inputs"].items()) all.push_back({name, tensor_of(value).requires_grad_()});
  const Tensor& x = all.back().tensor;  // after "memory", if there is one
  const Tensor output = call(model, x, all[all.size() - 2].tensor);
  EXPECT_LE(distance(tensor_of(one["output"]), output), 1e-10) << output.to_string();
  output.backward(tensor_of(one["cotangent"]));
  const StateDict gradients = entries_of(one["gradients"]);
  EXPECT_EQ(gradients.size(), all.size());
  for (const auto& [name, tensor] : all) {
    const Tensor* expected = gradients.find(name);
    ASSERT_TRUE(expected) << name;
    EXPECT_LE(distance(*expected, tensor.grad()), 1e-10) << name;
  }
}

void compare_with_pytorch(const Json& one, Padding padding) {
  const std::string kind = one["kind"];
  SCOPED_TRACE(kind + (one["norm_first"] ? " pre-norm " : " post-norm ") + std::string(one["activation"]) +
               one["target"].dump() + one["memory"].dump());
  const auto encode = [&](const auto& model, const Tensor& x, const Tensor&) {
    return model(x, attend_options(one["target"], x.size(1), padding));
  };
  const auto decode = [&](const auto& model, const Tensor& x, const Tensor& memory) {
    return model(x, memory,
                 {.target = attend_options(one["target"], x.size(1), padding),
                  .memory = attend_options(one["memory"], memory.size(1), padding)});
  };
  const nn::TransformerLayerOptions options{
      .dim_feedforward = 6,
      .dropout = one["train"] ? 0.0 : 0.3,
      .activation = one["activation"] == "gelu" ? nn::Activation::gelu : nn::Activation::relu,
      .layer_norm_eps = one["eps"],
      .norm_first = one["norm_first"]};
  std::optional<nn::LayerNorm> norm;
  if (one["norm"]) norm.emplace(4);
  const std::int64_t layers = one["layers"];
  if (kind == "TransformerEncoderLayer") compare(one, nn::TransformerEncoderLayer(4, 2, options), encode);
  if (kind == "TransformerDecoderLayer") compare(one, nn::TransformerDecoderLayer(4, 2, options), decode);
  if (kind == "TransformerEncoder") compare(one, nn::TransformerEncoder(4, 2, layers, options, norm), encode);
  if (kind == "TransformerDecoder") compare(one, nn::TransformerDecoder(4, 2, layers, options, norm), decode);
}

TEST(Reference, TransformerLayersMatchPyTorch) {
  const Json cases = read("layers_transformer.json");
  EXPECT_EQ(cases.size(), 11u);
  for (const Json& one : cases)
    for (const Padding padding : {Padding::by_mask, Padding::by_key_padding_mask, Padding::by_key_lengths})
      compare_with_pytorch(one, padding);
}

}  // namespace
}  // namespace tapegrad::reference
