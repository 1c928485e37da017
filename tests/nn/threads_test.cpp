// Every operation of a training step gives the same bits, values and gradients, on any number of threads: at the sizes
// of language models, where work is cut into pieces, and at ragged ones.
#include <gtest/gtest.h>

#include "autograd/expectations.hpp"

namespace tapegrad {
namespace {

using expectations::expect_same_on_any_threads;

struct Row {
  std::string name;
  std::vector<Shape> shapes;
  std::function<Tensor(const Tensors&)> operation;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class SameBits : public testing::TestWithParam<Row> {};

TEST_P(SameBits, OnAnyNumberOfThreads) {
  const Row& row = GetParam();
  manual_seed(3);
  Tensors leaves;
  for (const Shape& shape : row.shapes) leaves.push_back(randn(shape).requires_grad_());
  const auto run = [&] {
    manual_seed(4);  // for what is drawn at random inside
    return row.operation(leaves);
  };
  const Tensor result = run(), gradient = randn(result.shape());
  expect_same_on_any_threads([&] {
    const Tensor y = run();
    Tensors results = {y.detach()};
    if (!leaves.empty()) {
      for (const Tensor& leaf : leaves) leaf.set_grad({});
      y.backward(gradient);
    }
    for (const Tensor& leaf : leaves) results.push_back(leaf.grad());
    return results;
  });
}

std::vector<Row> products() {
  const auto linear_row = [](const char* name, std::int64_t rows, std::int64_t in, std::int64_t out) {
    return Row{name, {{rows, in}, {out, in}, {out}}, [](const Tensors& x) { return linear(x[0], x[1], x[2]); }};
  };
  const auto matmul_row = [](const char* name, const Shape& a, const Shape& b) {
    return Row{name, {a, b}, [](const Tensors& x) { return matmul(x[0], x[1]); }};
  };
  return {linear_row("linear_w1_proj", 768, 128, 128),
          linear_row("linear_w1_up", 768, 128, 512),
          linear_row("linear_w1_down", 768, 512, 128),
          linear_row("linear_w1_head", 768, 128, 65),
          linear_row("linear_w2_proj", 4096, 384, 384),
          linear_row("linear_w2_up", 4096, 384, 1536),
          linear_row("linear_w2_down", 4096, 1536, 384),
          linear_row("linear_ragged", 1003, 129, 517),
          matmul_row("matmul_w1", {768, 128}, {128, 512}),
          matmul_row("matmul_w2", {4096, 384}, {384, 384}),
          matmul_row("matmul_w1_scores", {48, 64, 32}, {48, 32, 64}),
          matmul_row("matmul_w2_scores", {96, 256, 64}, {96, 64, 256}),
          matmul_row("matmul_wide", {70, 1100}, {1100, 2001}),
          matmul_row("matmul_long_sum", {33, 50000}, {50000, 7})};
}

std::vector<Row> elementwise() {
  const Shape large{1003, 517};
  return {{"add_broadcast", {large, {517}}, [](const Tensors& x) { return x[0] + x[1]; }},
          {"mul_broadcast", {large, {1003, 1}}, [](const Tensors& x) { return x[0] * x[1]; }},
          {"gelu_erf", {large}, [](const Tensors& x) { return gelu(x[0]); }},
          {"gelu_tanh", {large}, [](const Tensors& x) { return gelu(x[0], GeluApproximation::tanh); }},
          {"exp", {large}, [](const Tensors& x) { return exp(x[0]); }},
          {"tanh", {large}, [](const Tensors& x) { return tanh(x[0]); }},
          {"dropout", {large}, [](const Tensors& x) { return dropout(x[0], 0.3); }},
          {"transposed", {large}, [](const Tensors& x) { return x[0].transpose(0, 1).contiguous(); }},
          {"randn",
           {},
           [](const Tensors&) {
             return randn({1003, 517});
           }},
          {"rand",
           {},
           [](const Tensors&) {
             return rand({1003, 517});
           }},
          {"randint", {}, [](const Tensors&) {
             return randint(-5, 1000, {1003, 517});
           }}};
}

std::vector<Row> reductions_and_rows() {
  const Shape large{4099, 257}, middle{40, 300, 70};
  const auto indices = [](std::int64_t end) {
    manual_seed(5);
    return randint(0, end, {4099});
  };
  return {{"sum_all", {large}, [](const Tensors& x) { return x[0].sum(); }},
          {"sum_rows", {large}, [](const Tensors& x) { return x[0].sum(0); }},
          {"sum_columns", {large}, [](const Tensors& x) { return x[0].sum(1); }},
          {"sum_few_long_columns", {{30011, 3}}, [](const Tensors& x) { return x[0].sum(0); }},
          {"sum_middle", {middle}, [](const Tensors& x) { return x[0].sum(1); }},
          {"mean_outer_and_inner",
           {middle},
           [](const Tensors& x) {
             return x[0].mean({0, 2});
           }},
          {"var", {large}, [](const Tensors& x) { return var(x[0], 1); }},
          {"norm", {large}, [](const Tensors& x) { return norm(x[0]); }},
          {"softmax", {large}, [](const Tensors& x) { return softmax(x[0], -1); }},
          {"softmax_first_axis", {large}, [](const Tensors& x) { return softmax(x[0], 0); }},
          {"log_softmax", {large}, [](const Tensors& x) { return log_softmax(x[0], -1); }},
          {"layer_norm", {large, {257}, {257}}, [](const Tensors& x) { return layer_norm(x[0], x[1], x[2]); }},
          {"layer_norm_w2", {{4096, 384}, {384}, {384}}, [](const Tensors& x) { return layer_norm(x[0], x[1], x[2]); }},
          {"cross_entropy", {large}, [=](const Tensors& x) { return nn::cross_entropy(x[0], indices(257)); }},
          {"cross_entropy_few_classes",
           {{4099, 65}},
           [=](const Tensors& x) { return nn::cross_entropy(x[0], indices(65)); }},
          {"embedding_few_rows", {{65, 384}}, [=](const Tensors& x) { return embedding(x[0], indices(65)); }},
          {"embedding_many_rows", {{5000, 129}}, [=](const Tensors& x) { return embedding(x[0], indices(5000)); }}};
}

std::vector<Row> attention() {
  const auto row = [](const char* name, const Shape& shape, const nn::AttentionOptions& options) {
    return Row{name, {shape, shape, shape}, [options](const Tensors& x) {
                 return nn::scaled_dot_product_attention(x[0], x[1], x[2], options).output;
               }};
  };
  const auto biased = [](const char* name, const Shape& shape, const Shape& bias) {
    return Row{name, {shape, shape, shape, bias}, [](const Tensors& x) {
                 const nn::AttentionOptions options{.bias = x[3], .is_causal = true, .need_weights = false};
                 return nn::scaled_dot_product_attention(x[0], x[1], x[2], options).output;
               }};
  };
  manual_seed(6);
  const Tensor mask = gt(rand({200, 200}), 0.5);
  return {row("attention_causal_w1", {12, 4, 64, 32}, {.is_causal = true, .need_weights = false}),
          row("attention_causal_w2", {16, 6, 256, 64}, {.is_causal = true, .need_weights = false}),
          row("attention_causal_long", {1, 2, 1024, 64}, {.is_causal = true, .need_weights = false}),
          row("attention_one_head", {1, 1, 777, 64}, {.is_causal = true, .need_weights = false}),
          row("attention_all_pairs", {2, 3, 333, 40}, {.need_weights = false}),
          row("attention_dropout", {4, 4, 200, 32}, {.is_causal = true, .dropout_p = 0.2, .need_weights = false}),
          row("attention_mask", {4, 4, 200, 32}, {.mask = mask, .need_weights = false}),
          row("attention_window", {1, 3, 500, 32}, {.window = 90, .need_weights = false}),
          biased("attention_bias", {3, 4, 300, 16}, {300, 300}),
          biased("attention_bias_of_heads", {3, 4, 300, 16}, {4, 1, 300}),
          biased("attention_bias_of_queries", {1, 2, 300, 16}, {300, 1}),
          row("attention_weights", {4, 4, 200, 32}, {.is_causal = true})};
}

std::string name_of_row(const testing::TestParamInfo<Row>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Products, SameBits, testing::ValuesIn(products()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Elementwise, SameBits, testing::ValuesIn(elementwise()), name_of_row);
INSTANTIATE_TEST_SUITE_P(ReductionsAndRows, SameBits, testing::ValuesIn(reductions_and_rows()), name_of_row);
INSTANTIATE_TEST_SUITE_P(Attention, SameBits, testing::ValuesIn(attention()), name_of_row);

}  // namespace
}  // namespace tapegrad
