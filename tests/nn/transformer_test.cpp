#include <gtest/gtest.h>

#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

const nn::TransformerLayerOptions kSmall{.dim_feedforward = 6, .dropout = 0.0};

std::vector<std::string> names_of(const nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : module.named_parameters()) names.push_back(name);
  return names;
}

TEST(TransformerLayers, HaveTheNamesOfPyTorchInItsOrder) {
  const nn::TransformerDecoder decoder(4, 2, 1, kSmall, nn::LayerNorm(4));
  std::vector<std::string> expected;
  for (const std::string attention : {"self_attn", "multihead_attn"})
    for (const std::string projection : {"q_proj", "k_proj", "v_proj", "out_proj"})
      for (const std::string kind : {"weight", "bias"})
        expected.push_back("layers.0." + attention + "." + projection + "." + kind);
  for (const std::string child : {"linear1", "linear2", "norm1", "norm2", "norm3"})
    for (const std::string kind : {"weight", "bias"}) expected.push_back("layers.0." + child + "." + kind);
  expected.insert(expected.end(), {"norm.weight", "norm.bias"});
  EXPECT_EQ(names_of(decoder), expected);
  EXPECT_EQ(nn::TransformerEncoderLayer(8, 2).num_parameters(), 4 * (64 + 8) + 2 * 8 * 2048 + 2048 + 8 + 4 * 8);
  EXPECT_EQ(nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 6, .bias = false}).num_parameters(),
            4 * 64 + 2 * 8 * 6 + 2 * 8);
}

TEST(TransformerLayers, PreNormWithGeluIsATransformerBlock) {
  nn::TransformerBlock block(8, 2, {.mlp_ratio = 2});
  nn::TransformerEncoderLayer layer(
      8, 2, {.dim_feedforward = 16, .dropout = 0.0, .activation = nn::Activation::gelu, .norm_first = true});
  tg::StateDict values;
  for (auto [name, tensor] : block.state_dict()) {
    if (name.starts_with("attention.")) name.replace(0, 9, "self_attn");
    values.set(name, tensor);
  }
  layer.load_state_dict(values);
  const tg::Tensor x = tg::randn({2, 5, 8});
  EXPECT_TRUE(tg::equal(layer(x, {.is_causal = true}), block(x, {.is_causal = true})));
}

TEST(TransformerLayers, PaddingThatAllItemsShareIsNotCutOff) {
  nn::TransformerEncoder encoder(8, 2, 2, kSmall);
  encoder.eval();
  const tg::Tensor x = tg::randn({2, 4, 8});
  const tg::NoGradGuard no_grad;
  const tg::Tensor y = encoder(x, {.key_padding_mask = tg::tensor({{1, 1, 0, 0}, {1, 0, 0, 0}})});
  EXPECT_EQ(y.shape(), x.shape());
  const tg::Tensor alone = encoder(x.slice(0, 0, 1).slice(1, 0, 2));
  EXPECT_TRUE(tg::allclose(y.slice(0, 0, 1).slice(1, 0, 2), alone, 1e-5, 1e-6));
}

TEST(TransformerLayers, AnItemOfPaddingAloneStaysFinite) {
  nn::TransformerEncoderLayer layer(8, 2, kSmall);
  tg::Tensor x = tg::randn({2, 3, 8}).requires_grad_();
  const tg::Tensor y = layer(x, {.key_padding_mask = tg::tensor({{1, 1, 1}, {0, 0, 0}})});
  y.sum().backward();
  EXPECT_TRUE(tg::equal(tg::isfinite(y), tg::ones({2, 3, 8})));
  EXPECT_TRUE(tg::equal(tg::isfinite(x.grad()), tg::ones({2, 3, 8})));
}

TEST(TransformerLayers, DropoutActsInTrainingOnEveryBranch) {
  const tg::Tensor x = tg::randn({1, 4, 8});
  for (const auto activation : {nn::Activation::relu, nn::Activation::gelu}) {
    nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0.5, .activation = activation});
    EXPECT_FALSE(tg::equal(layer(x), layer(x)));
    layer.eval();
    EXPECT_TRUE(tg::equal(layer(x), layer(x)));
  }
  // With everything dropped each step is its residual path alone.
  nn::TransformerDecoderLayer all(8, 2, {.dim_feedforward = 16, .dropout = 1.0, .norm_first = true});
  EXPECT_TRUE(tg::equal(all(x, tg::randn({1, 3, 8})), x));
  nn::TransformerEncoderLayer hidden(8, 2, {.dim_feedforward = 16, .activation = nn::Activation::gelu});
  EXPECT_FALSE(tg::equal(hidden(x), hidden(x)));
}

TEST(TransformerLayers, EveryLayerIsDrawnForItself) {
  const nn::TransformerEncoder encoder(8, 2, 2, kSmall);
  EXPECT_FALSE(tg::equal(encoder.layers()[0].parameters()[0], encoder.layers()[1].parameters()[0]));
}

TEST(TransformerLayers, CausalDecodersAreCausalAndItemsAreApart) {
  nn::TransformerDecoder decoder(8, 2, 2, {.dim_feedforward = 6}, nn::LayerNorm(8));
  const tg::Tensor x = tg::randn({2, 5, 8}), memory = tg::randn({2, 3, 8});
  decoder.eval();
  const auto causal = [&](const tg::Tensor& h) { return decoder(h, memory, {.target = {.is_causal = true}}); };
  const auto both_ways = [&](const tg::Tensor& h) { return decoder(h, memory); };
  const nn::LeakReport report = nn::check_causal(causal, x);
  EXPECT_TRUE(report) << report.to_string();
  EXPECT_FALSE(nn::check_causal(both_ways, x));
  EXPECT_TRUE(nn::check_batch_independence(both_ways, x));
  EXPECT_TRUE(nn::check_batch_independence(nn::TransformerEncoder(8, 2, 2, {.dim_feedforward = 6}), x));
}

TEST(TransformerLayers, GradientsOfADecoderLayerAreRight) {
  tg::manual_seed(9);
  for (const bool norm_first : {false, true}) {
    nn::TransformerDecoderLayer layer(
        4, 2, {.dim_feedforward = 3, .dropout = 0.0, .activation = nn::Activation::gelu, .norm_first = norm_first});
    layer.to(tg::float64);
    const tg::Tensor x = tg::randn({1, 2, 4}, tg::float64), memory = tg::randn({1, 3, 4}, tg::float64);
    const auto call = [&](const tg::Tensors& in) { return layer(in[0], in[1], {.target = {.is_causal = true}}); };
    const auto first = tg::autograd::gradcheck(call, {x, memory});
    EXPECT_TRUE(first) << first.to_string();
    const auto second = tg::autograd::gradgradcheck(call, {x, memory});
    EXPECT_TRUE(second) << second.to_string();
  }
}

TEST(TransformerLayers, MistakesAreNamed) {
  const auto mentions = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  mentions(error_of([] { nn::TransformerEncoder(8, 2, 0); }), {"TransformerEncoder", "num_layers", "0"});
  mentions(error_of([] { nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 0}); }), {"dim_feedforward", "0"});
  mentions(error_of([] { nn::TransformerEncoderLayer(8, 3); }), {"divisible", "8", "3"});
  mentions(error_of([] { nn::TransformerBlock(-8, 2); }), {"TransformerBlock", "embed_dim", "got -8"});
  mentions(error_of([] { nn::LayerNorm(-8); }), {"LayerNorm", "none below 0", "[-8]"});
  nn::TransformerDecoder decoder(8, 2, 2, kSmall);
  const tg::Tensor x = tg::ones({1, 2, 8});
  mentions(error_of([&] { decoder(x, tg::ones({1, 2, 6})); }), {"layers.0.multihead_attn", "[1, 2, 6]", "8"});
  mentions(error_of([&] { decoder(tg::ones({1, 2, 6}), x); }), {"layers.0.self_attn", "[1, 2, 6]"});
}

}  // namespace
