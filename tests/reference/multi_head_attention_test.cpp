// MultiHeadAttention against torch.nn.MultiheadAttention with the same weights, which come and go under PyTorch's
// names.
#include <gtest/gtest.h>

#include <tapegrad/nn/multi_head_attention.hpp>
#include <tapegrad/nn/torch_names.hpp>
#include <tapegrad/tapegrad.hpp>

#include "autograd/expectations.hpp"
#include "reference/cases.hpp"

namespace tapegrad::reference {
namespace {

using expectations::expect_throws;

StateDict state_of(const Json& entries) {
  StateDict state;
  for (const auto& [name, value] : entries.items()) state.set(name, tensor_of(value));
  return state;
}

std::optional<std::int64_t> width_in(const Json& options, const char* name) {
  return options.contains(name) ? std::optional<std::int64_t>(options[name]) : std::nullopt;
}

nn::MultiHeadAttention layer_of(const Json& one) {
  const Json& options = one["options"];
  nn::MultiHeadAttention layer(
      4, 2, {.bias = !options.contains("bias"), .kdim = width_in(options, "kdim"), .vdim = width_in(options, "vdim")});
  layer.to(float64);
  layer.load_state_dict(nn::from_torch_names(state_of(one["parameters"])));
  return layer;
}

/// True means blocked in PyTorch's masks; one mask for each head of each item is a list of all of them there.
nn::AttendOptions options_of(const Json& one) {
  nn::AttendOptions options;
  if (Tensor blocked = tensor_of(one["blocked"]); blocked.defined()) {
    if (blocked.rank() == 3) blocked = blocked.reshape({2, 2, 3, 4});
    options.mask = logical_not(blocked);
  }
  if (const Tensor padding = tensor_of(one["padding"]); padding.defined())
    options.key_padding_mask = logical_not(padding);
  return options;
}

void expect_near(const Json& expected, const Tensor& got, const std::string& what) {
  EXPECT_LE(distance(tensor_of(expected), got), 1e-12) << what;
}

TEST(Reference, MultiHeadAttentionMatchesPyTorch) {
  for (const Json& one : read("multi_head_attention.json")) {
    SCOPED_TRACE(one["name"].get<std::string>());
    if (one["name"] == "a blank row") continue;
    const nn::MultiHeadAttention layer = layer_of(one);
    nn::AttendOptions options = options_of(one);
    const Tensors in = tensors_of(one["inputs"]);
    for (Tensor x : in) x.requires_grad_();
    const Tensor output = layer(in[0], in[1], in[2], options);
    expect_near(one["output"], output, "output");
    output.backward(tensor_of(one["cotangent"]));
    for (std::size_t i = 0; i < 3; ++i) expect_near(one["input_gradients"][i], in[i].grad(), "an input's gradient");
    const StateDict gradients = nn::from_torch_names(state_of(one["parameter_gradients"]));
    for (const auto& [name, parameter] : layer.named_parameters())
      EXPECT_LE(distance(gradients.at(name), parameter.grad()), 1e-12) << name;
    const NoGradGuard no_grad;
    expect_near(one["weights"], layer.attention_weights(in[0], in[1], options), "weights");
    options.average_weights = true;
    expect_near(one["averaged_weights"], layer.attention_weights(in[0], in[1], options), "averaged weights");
  }
}

TEST(Reference, ARowThatSeesNothingIsNaNInPyTorchAndZeroHere) {
  const Json cases = read("multi_head_attention.json");
  const Json& one = cases.back();
  ASSERT_EQ(one["name"], "a blank row");
  const nn::MultiHeadAttention layer = layer_of(one);
  const Tensors in = tensors_of(one["inputs"]);
  const NoGradGuard no_grad;
  const Tensor theirs = tensor_of(one["output"]), ours = layer(in[0], in[1], in[2], options_of(one));
  EXPECT_TRUE(all(isnan(theirs.select(1, 1))).item());
  EXPECT_TRUE(equal(ours.select(1, 1), layer.out_proj().bias().expand({2, 4})));
  for (const std::int64_t row : {0, 2}) EXPECT_TRUE(allclose(ours.select(1, row), theirs.select(1, row), 0, 1e-12));
  EXPECT_TRUE(equal(layer.attention_weights(in[0], in[1], options_of(one)).select(2, 1), zeros({2, 2, 4}, float64)));
}

TEST(TorchNames, ThereAndBackInAWholeModel) {
  for (const Json& one : read("multi_head_attention.json")) {
    StateDict model;
    for (const auto& [name, tensor] : state_of(one["parameters"]))
      for (const char* prefix : {"", "encoder.0.attention."}) model.set(prefix + name, tensor);
    for (const char* name : {"head.weight", "my_in_proj_weight", "encoder.0.linear.bias"}) model.set(name, ones({2}));
    const StateDict ours = nn::from_torch_names(model), back = nn::to_torch_names(ours);
    EXPECT_TRUE(ours.contains("encoder.0.attention.k_proj.weight"));
    EXPECT_TRUE(ours.contains("my_in_proj_weight"));
    ASSERT_EQ(back.size(), model.size());
    for (const auto& [name, tensor] : model) EXPECT_TRUE(equal(back.at(name), tensor)) << name;
  }
}

TEST(TorchNames, OfALayerWithGradientsStayOffTheTape) {
  const nn::MultiHeadAttention layer(8, 2);
  const StateDict packed = nn::to_torch_names(layer.state_dict());
  EXPECT_EQ(packed.at("in_proj_weight").shape(), (Shape{24, 8}));
  EXPECT_EQ(packed.at("in_proj_bias").shape(), (Shape{24}));
  EXPECT_FALSE(packed.at("in_proj_weight").requires_grad());
  nn::MultiHeadAttention other(8, 2);
  other.load_state_dict(nn::from_torch_names(packed));
  EXPECT_TRUE(equal(other.k_proj().weight(), layer.k_proj().weight()));
}

TEST(TorchNames, Mistakes) {
  const Tensor out = ones({4, 4}), packed = ones({12, 4});
  expect_throws<ValueError>(
      [&] {
        nn::from_torch_names({{"a.in_proj_weight", packed}});
      },
      {"from_torch_names", "a.out_proj.weight", "a.in_proj_weight"});
  expect_throws<ShapeError>(
      [&] {
        nn::from_torch_names({{"in_proj_weight", ones({8, 4})}, {"out_proj.weight", out}});
      },
      {"in_proj_weight", "[12, 4]", "[8, 4]"});
  expect_throws<ShapeError>(
      [&] {
        nn::from_torch_names({{"in_proj_weight", packed}, {"out_proj.weight", ones({4})}});
      },
      {"out_proj.weight", "square", "[4]"});
  expect_throws<ValueError>(
      [&] {
        nn::from_torch_names({{"in_proj_bias", ones({12})}, {"out_proj.weight", out}});
      },
      {"in_proj_weight", "in_proj_bias"});
  expect_throws<ValueError>(
      [&] {
        nn::from_torch_names({{"q_proj_weight", out}, {"v_proj_weight", out}});
      },
      {"k_proj_weight"});
  expect_throws<ValueError>([&] { nn::from_torch_names({{"bias_k", ones({1, 1, 4})}}); }, {"add_bias_kv", "bias_k"});
  expect_throws<ValueError>(
      [&] {
        nn::from_torch_names({{"in_proj_weight", packed}, {"out_proj.weight", out}, {"q_proj.weight", out}});
      },
      {"two", "q_proj.weight"});
  expect_throws<ShapeError>([] { nn::to_torch_names(nn::MultiHeadAttention(4, 2, {.num_kv_heads = 1}).state_dict()); },
                            {"to_torch_names", "k_proj.weight", "grouped", "[2, 4]"});
  expect_throws<ValueError>([] { nn::to_torch_names(nn::MultiHeadAttention(4, 2, {.qk_norm = true}).state_dict()); },
                            {"qk_norm", "q_norm.weight"});
  expect_throws<ValueError>(
      [&] {
        nn::to_torch_names({{"a.k_proj.weight", out}, {"a.out_proj.weight", out}});
      },
      {"a.q_proj.weight", "a.k_proj.weight"});
}

}  // namespace
}  // namespace tapegrad::reference
