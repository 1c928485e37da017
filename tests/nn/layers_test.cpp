#include <gtest/gtest.h>

#include <cmath>

#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

TEST(LinearLayer, OfGeluIsTheLayerAfterTheActivation) {
  const tg::nn::Linear layer(5, 3);
  const tg::Tensor x = tg::randn({4, 5});
  EXPECT_TRUE(tg::equal(layer.of_gelu(x), layer(tg::gelu(x))));
  EXPECT_THROW(layer.of_gelu(tg::randn({4, 6})), tg::ShapeError);
}

TEST(Layers, RefuseSizesInTheNameOfModuleAndArgument) {
  const auto expect_refused = [](auto make, const std::string& text) {
    EXPECT_EQ(error_of(make).substr(0, text.size()), text);
  };
  expect_refused([] { nn::Linear(-1, 2); }, "Linear: in_features must not be negative; got -1");
  expect_refused([] { nn::Linear(2, -3); }, "Linear: out_features must not be negative; got -3");
  expect_refused([] { nn::Embedding(-1, 2); }, "Embedding: num_embeddings must not be negative; got -1");
  expect_refused([] { nn::Embedding(2, -1); }, "Embedding: embedding_dim must not be negative; got -1");
  expect_refused([] { nn::LayerNorm(tg::Shape{-1}); }, "LayerNorm: normalized_shape must");
  expect_refused([] { nn::LayerNorm(tg::Shape{}); }, "LayerNorm: normalized_shape must");
  expect_refused([] { nn::RMSNorm(-8); }, "RMSNorm: width must not be negative; got -8");
  expect_refused([] { nn::RMSNorm(8, -1); }, "RMSNorm: eps must not be negative; got -1");
  expect_refused([] { nn::SwiGLU(-1, 2); }, "SwiGLU: features must not be negative; got -1");
  expect_refused([] { nn::SwiGLU(1, -2); }, "SwiGLU: hidden must not be negative; got -2");
  expect_refused([] { nn::LearnedPositions(-1, 2); }, "LearnedPositions: max_length must not be negative; got -1");
  expect_refused([] { nn::LearnedPositions(1, -2); }, "LearnedPositions: width must not be negative; got -2");
  expect_refused([] { nn::SinusoidalPositions(-2); }, "SinusoidalPositions: the width must");
  expect_refused([] { nn::MultiHeadAttention(-8, 2); }, "MultiHeadAttention: embed_dim and num_heads must");
  expect_refused([] { nn::MultiHeadAttention(8, 2, {.kdim = -1}); }, "MultiHeadAttention: kdim must not be negative");
  expect_refused([] { nn::MultiHeadAttention(8, 2, {.vdim = -2}); }, "MultiHeadAttention: vdim must not be negative");
  expect_refused([] { nn::SelfAttention(-1); }, "SelfAttention: d_model must");
  expect_refused([] { nn::TransformerBlock(-8, 2); }, "TransformerBlock: embed_dim must not be negative; got -8");
  expect_refused([] { nn::TransformerBlock(-8, 2, {.norm = nn::NormKind::rms}); }, "TransformerBlock: embed_dim must");
}

TEST(Layers, RefuseUndefinedInputsInTheNameOfTheModule) {
  const tg::Tensor none, x = tg::ones({1, 2, 4});
  const auto expect_refused = [](auto call, const std::string& name) {
    expect_contains(error_of(call), name + ": expected a tensor with a value");
  };
  expect_refused([&] { nn::Linear(4, 2)(none); }, "Linear");
  expect_refused([&] { nn::LayerNorm(4)(none); }, "LayerNorm");
  expect_refused([&] { nn::RMSNorm(4)(none); }, "rms_norm");
  expect_refused([&] { nn::Embedding(4, 2)(none); }, "embedding");
  expect_refused([&] { nn::Dropout(0.5)(none); }, "dropout");
  expect_refused([&] { nn::SwiGLU(4, 2)(none); }, "Linear");
  expect_refused([&] { nn::GELU()(none); }, "gelu");
  expect_refused([&] { nn::LearnedPositions(4, 2)(none); }, "LearnedPositions");
  expect_refused([&] { nn::MultiHeadAttention(4, 2)(none); }, "MultiHeadAttention: query");
  expect_refused([&] { nn::MultiHeadAttention(4, 2)(x, x, none); }, "MultiHeadAttention: value");
  expect_refused([&] { nn::SelfAttention(4)(none); }, "SelfAttention");
  expect_refused([&] { nn::TransformerBlock(4, 2)(none); }, "LayerNorm");
  expect_refused([&] { nn::scaled_dot_product_attention(x, none, x); }, "scaled_dot_product_attention: key");
  expect_refused([&] { nn::linear_attention(x, x, none); }, "linear_attention: value");
  expect_refused([&] { nn::mse_loss(none, x); }, "mse_loss");
  expect_refused([&] { nn::l1_loss(x, none); }, "l1_loss");
  expect_refused([&] { nn::cross_entropy(x, none); }, "cross_entropy");
  expect_refused([&] { nn::nll_loss(none, x); }, "nll_loss");
  expect_refused([&] { nn::init::uniform_(none); }, "uniform_");
  expect_refused([&] { nn::init::xavier_normal_(none); }, "xavier_normal_");
}

TEST(LinearTest, IsXTimesTransposedWeightPlusBias) {
  nn::Linear layer(3, 2);
  const tg::Tensor x = tg::randn({4, 5, 3});
  EXPECT_TRUE(tg::allclose(layer(x), tg::matmul(x, layer.weight().transpose(0, 1)) + layer.bias(), 1e-5, 1e-6));
  EXPECT_FALSE(nn::Linear(3, 2, {.bias = false}).bias().defined());
}

TEST(LinearTest, StartsWithinOneOverRootOfInFeatures) {
  nn::Linear layer(100, 400);
  EXPECT_LE(layer.weight().abs().max().item(), 0.1);
  EXPECT_GT(layer.weight().abs().max().item(), 0.099);
  EXPECT_NEAR(layer.weight().mean().item(), 0.0, 1e-3);
  EXPECT_LE(layer.bias().abs().max().item(), 0.1);
}

TEST(LinearTest, NoInputFeaturesLeaveTheBias) {
  nn::Linear layer(0, 2);
  EXPECT_TRUE(tg::equal(layer(tg::zeros({3, 0})), tg::zeros({3, 2})));
}

TEST(EmbeddingTest, PaddingRowGetsNoGradientAndRepeatedRowsAddUp) {
  nn::Embedding table(4, 2, {.padding_idx = 0});
  EXPECT_TRUE(tg::equal(table.weight().select(0, 0), tg::zeros({2})));
  table(tg::tensor({1, 1, 0, 3})).sum().backward();
  EXPECT_TRUE(tg::equal(table.weight().grad(), tg::tensor({{0., 0.}, {2., 2.}, {0., 0.}, {1., 1.}})));
  tg::optim::AdamW optimizer(table.parameters(), {.lr = 0.1, .weight_decay = 0.5});
  optimizer.step();
  EXPECT_TRUE(tg::equal(table.weight().select(0, 0), tg::zeros({2})));
}

TEST(EmbeddingTest, NegativePaddingCountsFromTheEnd) {
  nn::Embedding table(4, 2, {.padding_idx = -1});
  EXPECT_TRUE(tg::equal(table.weight().select(0, 3), tg::zeros({2})));
  EXPECT_THROW(nn::Embedding(4, 2, {.padding_idx = 4}), tg::IndexError);
  EXPECT_THROW(table(tg::tensor({4})), tg::IndexError);
}

TEST(LayerNormTest, NormalizesTheLastDimensions) {
  const tg::Tensor x = tg::randn({2, 3, 4});
  nn::LayerNorm norm({3, 4});
  const tg::Tensor mean = x.mean({1, 2}, true);
  const tg::Tensor expected = (x - mean) / tg::sqrt(tg::var(x, {1, 2}, 0, true) + 1e-5);
  EXPECT_TRUE(tg::allclose(norm(x), expected, 1e-4, 1e-5));
  EXPECT_EQ(norm.num_parameters(), 24);
  EXPECT_EQ(nn::LayerNorm(4, {.bias = false}).num_parameters(), 4);
  EXPECT_EQ(nn::LayerNorm(4, {.elementwise_affine = false}).num_parameters(), 0);
  EXPECT_THROW(norm(tg::ones({2, 4, 3})), tg::ShapeError);
}

TEST(LayerNormTest, AConstantRowStaysFinite) {
  nn::LayerNorm norm(256);
  tg::Tensor x = tg::full({1, 256}, 1234.0).requires_grad_();
  const tg::Tensor y = norm(x);
  EXPECT_LT(y.abs().max().item(), 0.05);
  y.sum().backward();
  EXPECT_TRUE(tg::all(tg::isfinite(x.grad())).item());
}

TEST(DropoutTest, AtItsEnds) {
  tg::Tensor x = tg::randn({50}).requires_grad_();
  nn::Dropout(1.0)(x).sum().backward();
  EXPECT_TRUE(tg::equal(x.grad(), tg::zeros({50})));
  EXPECT_TRUE(tg::equal(nn::Dropout(1.0)(x), tg::zeros({50})));
  EXPECT_TRUE(tg::equal(nn::Dropout(0.0)(x), x));
  nn::Dropout half(0.5);
  half.eval();
  EXPECT_TRUE(tg::equal(half(x), x));
  EXPECT_THROW(nn::Dropout(1.5), tg::ValueError);
  EXPECT_THROW(nn::Dropout(std::nan("")), tg::ValueError);
}

TEST(DropoutTest, TheBackwardMaskIsTheForwardOne) {
  tg::Tensor x = tg::ones({1000}).requires_grad_();
  const tg::Tensor y = nn::Dropout(0.2)(x);
  y.sum().backward();
  EXPECT_TRUE(tg::equal(y, x.grad()));
  EXPECT_DOUBLE_EQ(y.max().item(), 1.25);
  EXPECT_NEAR(tg::ne(y, 0).sum().item(), 800, 60);
}

TEST(ActivationsTest, KnownValues) {
  const tg::Tensor one = tg::tensor({1.0}, tg::float64);
  EXPECT_NEAR(nn::GELU()(one).item(), 0.8413447460685429, 1e-12);
  EXPECT_NEAR(nn::GELU(nn::GeluApproximation::tanh)(one).item(), 0.8411919906082768, 1e-12);
  EXPECT_NEAR(nn::SiLU()(one).item(), 0.7310585786300049, 1e-12);
  EXPECT_NEAR(nn::Tanh()(one).item(), std::tanh(1.0), 1e-12);
  EXPECT_NEAR(nn::Sigmoid()(one).item(), 0.7310585786300049, 1e-12);
  EXPECT_EQ(nn::ReLU()(-1 * one).item(), 0.0);
  EXPECT_NEAR(nn::LeakyReLU(0.2)(-1 * one).item(), -0.2, 1e-12);
  EXPECT_NEAR(nn::ELU(2)(-1 * one).item(), 2 * std::expm1(-1.0), 1e-12);
  EXPECT_NEAR(nn::Softplus()(one).item(), std::log1p(std::exp(1.0)), 1e-12);
  EXPECT_NEAR(nn::Softplus(2.0)(one).item(), std::log1p(std::exp(2.0)) / 2, 1e-12);
  EXPECT_EQ(nn::Softplus(2.0, 1.5)(one).item(), 1.0);
  EXPECT_EQ(nn::Softplus(2.0).to_string(), "Softplus(beta=2, threshold=20): 0 parameters");
  EXPECT_THROW(nn::Softplus(0.0)(one), tg::ValueError);
  EXPECT_EQ(nn::Softmax(0)(one).item(), 1.0);
  EXPECT_EQ(nn::LogSoftmax(-1)(one).item(), 0.0);
  EXPECT_EQ(nn::LeakyReLU(0.2).to_string(), "LeakyReLU(negative_slope=0.2): 0 parameters");
}

TEST(ActivationsTest, AreModulesOfAnyFunction) {
  nn::Sequential model(nn::Function("Square", [](const tg::Tensor& x) { return tg::square(x); }), nn::Softmax(2));
  int calls = 0;
  model.named_modules()[1].module.register_forward_hook(
      [&](const nn::Module& module, const tg::Tensor& y) { calls += module.type() == "Square" && y.item() == 9; });
  EXPECT_THROW(model(tg::tensor({3.0})), tg::Error);
  EXPECT_EQ(calls, 1);
}

TEST(ContainersTest, SequentialAppliesInOrder) {
  nn::Linear first(2, 3), last(3, 1);
  nn::Sequential model(first, nn::Tanh(), last);
  const tg::Tensor x = tg::randn({4, 2});
  EXPECT_TRUE(tg::equal(model(x), last(tg::tanh(first(x)))));
  EXPECT_EQ(model.size(), 3u);
  EXPECT_EQ(model.num_parameters(), 9 + 4);
}

TEST(SwiGLUTest, GatesItsHiddenLayer) {
  nn::SwiGLU layer(4, 6, {.bias = false});
  const tg::Tensor x = tg::randn({2, 3, 4});
  const auto times = [](const tg::Tensor& a, const nn::Linear& projection) {
    return tg::matmul(a, projection.weight().transpose(0, 1));
  };
  const tg::Tensor gate = times(x, layer.gate_proj());
  const tg::Tensor expected = times(gate * tg::sigmoid(gate) * times(x, layer.up_proj()), layer.down_proj());
  EXPECT_TRUE(tg::allclose(layer(x), expected, 1e-5, 1e-6));
  EXPECT_EQ(layer.num_parameters(), 3 * 4 * 6);
}

TEST(TransformerBlockTest, IsMadeOfWhatItsOptionsSay) {
  const nn::TransformerBlock block(16, 4,
                                   {.mlp_ratio = 2,
                                    .bias = false,
                                    .norm = nn::NormKind::rms,
                                    .feed_forward = nn::FeedForward::swiglu,
                                    .num_kv_heads = 2,
                                    .rotary = true,
                                    .qk_norm = true,
                                    .window = nn::Window(3)});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : block.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"norm1.weight", "attention.q_proj.weight", "attention.k_proj.weight",
                                             "attention.v_proj.weight", "attention.out_proj.weight",
                                             "attention.q_norm.weight", "attention.k_norm.weight", "norm2.weight",
                                             "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"}));
  EXPECT_EQ(block.linear2().weight().body(), block.named_parameters().back().tensor.body());
  const tg::Tensor x = tg::randn({2, 9, 16});
  nn::MultiHeadAttention attention(16, 4,
                                   {.bias = false, .num_kv_heads = 2, .rotary = true, .qk_norm = true, .window = 3});
  attention.load_state_dict(block.attention().state_dict());
  const auto norm = [](const tg::Tensor& y) { return y / tg::sqrt(tg::square(y).mean(-1, true) + 1e-5); };
  const tg::Tensor y = x + attention(norm(x), {.is_causal = true});
  const tg::Tensor hidden = block.linear1()(norm(y));
  const tg::Tensor gate = tg::linear(norm(y), block.state_dict().at("mlp.gate_proj.weight"));
  EXPECT_TRUE(tg::allclose(block(x, {.is_causal = true}), y + block.linear2()(tg::silu(gate) * hidden), 1e-4, 1e-5));

  const tg::NoGradGuard no_grad;
  nn::KVCache cache;
  const tg::Tensor start = block(x.slice(1, 0, 8), cache), end = block(x.slice(1, 8, 9), cache);
  EXPECT_TRUE(tg::allclose(tg::cat({start, end}, 1), block(x, {.is_causal = true}), 1e-4, 1e-5));
}

TEST(TransformerBlockTest, ReluTakesThePlaceOfGelu) {
  const nn::TransformerBlock block(8, 2, {.feed_forward = nn::FeedForward::relu});
  const tg::Tensor x = tg::randn({1, 3, 8});
  const tg::Tensor y = x + block.attention()(block.norm1()(x));
  EXPECT_TRUE(tg::allclose(block(x), y + block.linear2()(tg::relu(block.linear1()(block.norm2()(y)))), 1e-5, 1e-6));
}
