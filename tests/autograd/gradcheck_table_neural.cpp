#include <tapegrad/nn/attention.hpp>

#include "gradcheck_table.hpp"

namespace tapegrad::table {
namespace {

void add_matmul(Rows& rows) {
  const Apply product = [](const Tensors& in) { return matmul(in[0], in[1]); };
  const std::pair<Shape, Shape> pairs[] = {
      {{2, 3}, {3, 4}},    {{3}, {3}},          {{3}, {3, 2}},          {{2, 3}, {3}},
      {{2, 2, 3}, {3, 4}}, {{3, 2}, {2, 2, 3}}, {{2, 2, 3}, {2, 3, 2}}, {{2, 1, 2, 3}, {3, 3, 2}},
      {{3}, {2, 3, 2}},    {{2, 2, 3}, {3}},    {{1, 1}, {1, 1}},       {{2, 0}, {0, 3}},
      {{0, 2}, {2, 3}},    {{0, 2, 3}, {3, 2}}, {{5, 9}, {9, 3}}};
  for (const auto& [a, b] : pairs) add_shapes(rows, "matmul", "", product, {a, b});
  for (Row& row : rows)  // vectors become matrices and back
    if (row.operation == "matmul" && (row.inputs[0].rank() == 1 || row.inputs[1].rank() == 1))
      row.through = {"reshape"};
  const Tensor square = signed_values({3, 3});
  rows.push_back({"matmul", "one tensor used twice", [](const Tensors& in) { return matmul(in[0], in[0]); }, {square}});
  rows.push_back({"matmul", "one tensor given twice", product, {square, square}});
}

void add_normalisations(Rows& rows) {
  for (const std::int64_t axis : {-1, 0}) {
    const std::string what = "axis " + std::to_string(axis) + " of";
    for (const Shape& shape : {Shape{2, 3}, Shape{4}, Shape{2, 3, 2}, Shape{2, 1}, Shape{0, 3}, Shape{2, 19}}) {
      add_shapes(rows, "softmax", what, [axis](const Tensors& in) { return softmax(in[0], axis); }, {shape});
      add_shapes(rows, "log_softmax", what, [axis](const Tensors& in) { return log_softmax(in[0], axis); }, {shape});
    }
  }
  const Apply full = [](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); };
  for (const Shape& shape : {Shape{2, 5}, Shape{3, 2, 4}, Shape{6}, Shape{0, 4}, Shape{2, 19}})
    add_shapes(rows, "layer_norm", "", full, {shape, {shape.back()}, {shape.back()}});
  add_shapes(rows, "layer_norm", "no bias,", [](const Tensors& in) { return layer_norm(in[0], in[1], {}); },
             {{2, 5}, {5}});
  add_shapes(rows, "layer_norm", "no weight,", [](const Tensors& in) { return layer_norm(in[0], {}, in[1]); },
             {{2, 5}, {5}});
  add_shapes(rows, "layer_norm", "plain", [](const Tensors& in) { return layer_norm(in[0], {}, {}); }, {{3, 5}});
  add_shapes(rows, "layer_norm", "two dimensions,",
             [](const Tensors& in) { return layer_norm(in[0], in[1], in[2], 1e-5, 2); }, {{2, 3, 2}, {3, 2}, {3, 2}});
  const Apply rms = [](const Tensors& in) { return rms_norm(in[0], in[1]); };
  for (const Shape& shape : {Shape{2, 5}, Shape{3, 2, 4}, Shape{6}, Shape{0, 4}, Shape{2, 19}})
    add_shapes(rows, "rms_norm", "", rms, {shape, {shape.back()}});
  add_shapes(rows, "rms_norm", "plain", [](const Tensors& in) { return rms_norm(in[0], {}, 0.1); }, {{3, 5}});
  add_shapes(rows, "rms_norm", "two dimensions,", [](const Tensors& in) { return rms_norm(in[0], in[1], 1e-5, 2); },
             {{2, 3, 2}, {3, 2}});
}

void add_attention(Rows& rows) {
  const auto weights = [](const Tensor& mask, bool causal) {
    return [=](const Tensors& in) {
      const Tensor zero = zeros({2, 3, 2}, float64);
      return nn::scaled_dot_product_attention(zero, zero, zero, {.mask = mask, .bias = in[0], .is_causal = causal})
          .weights;
    };
  };
  const Tensor mask = tensor({{1, 0, 1}, {0, 0, 0}, {1, 1, 0}});
  const std::pair<const char*, Apply> choices[] = {{"all of", weights({}, false)},
                                                   {"causal", weights({}, true)},
                                                   {"masked", weights(mask, false)},
                                                   {"masked causal", weights(mask, true)}};
  for (const auto& [what, apply] : choices) add_shapes(rows, "masked_softmax", what, apply, {{2, 3, 3}});
  for (Row& row : rows)
    if (row.operation == "masked_softmax") row.through = {"add"};
  rows.push_back({"row_products",
                  "[2, 3, 2] and [4, 2], causal",
                  [](const Tensors& in) {
                    const Tensor value = ones({4, 1}, float64);
                    return nn::scaled_dot_product_attention(in[0], in[1], value, {.is_causal = true}).weights;
                  },
                  {signed_values({2, 3, 2}), signed_values({4, 2})}});
  rows.back().through = {"masked_softmax"};
  rows.push_back({"weighted_sum",
                  "[3, 4] and [2, 4, 3], causal",
                  [](const Tensors& in) {
                    const Tensor q = zeros({3, 2}, float64), k = zeros({4, 2}, float64);
                    return nn::scaled_dot_product_attention(q, k, in[1], {.bias = in[0], .is_causal = true}).output;
                  },
                  {signed_values({3, 4}), signed_values({2, 4, 3})}});
  rows.back().through = {"add", "masked_softmax"};

  const auto output = [](const Tensor& mask, bool causal) {
    return [=](const Tensors& in) {
      return nn::scaled_dot_product_attention(in[0], in[1], in[2],
                                              {.mask = mask, .is_causal = causal, .need_weights = false})
          .output;
    };
  };
  const std::pair<const char*, Apply> fused[] = {{"all of", output({}, false)},
                                                 {"causal", output({}, true)},
                                                 {"masked", output(mask, false)},
                                                 {"masked causal", output(mask, true)}};
  for (const auto& [what, apply] : fused) {
    add_shapes(rows, "attention", what, apply, {{2, 3, 2}, {2, 3, 2}, {2, 3, 4}});
    add_shapes(rows, "attention", what, apply, {{2, 1, 3, 1}, {3, 1}, {2, 3, 2}});
  }
  const Apply with_bias = [](const Tensors& in) {
    return nn::scaled_dot_product_attention(in[0], in[1], in[2],
                                            {.bias = in[3], .window = nn::Window(1, 0), .need_weights = false})
        .output;
  };
  for (const Shape& bias : {Shape{3, 4}, Shape{1, 4}, Shape{3, 1}, Shape{2, 1, 4}})
    add_shapes(rows, "attention", "window, bias", with_bias, {{2, 3, 2}, {2, 4, 2}, {2, 4, 3}, bias});
  for (const auto& [what, apply] : {fused[0], fused[1]})
    for (const auto& [queries, keys] : {std::pair{2, 5}, {4, 3}, {0, 3}, {3, 0}})
      add_shapes(rows, "attention", what, apply, {{queries, 3}, {keys, 3}, {keys, 2}});
}

/// The first row has nothing inside: it is right whatever is wrong elsewhere.
void add_checkpoint(Rows& rows) {
  const Apply nothing = [](const Tensors& in) {
    return autograd::checkpoint([](const Tensors& x) { return x[0]; }, in);
  };
  const Apply several = [](const Tensors& in) {
    const auto inside = [w = in[1]](const Tensors& x) { return softmax(x[0] * w, -1) * x[0] + tanh(w); };
    return autograd::checkpoint(inside, {in[0]});
  };
  add_shapes(rows, "checkpoint", "nothing,", nothing, {{2, 3}});
  add_shapes(rows, "checkpoint", "several operations,", several, {{2, 3}, {3}});
  add_shapes(rows, "checkpoint", "several operations,", several, {{0, 3}, {3}});
}

}  // namespace

void add_neural_rows(Rows& rows) {
  add_matmul(rows);
  add_normalisations(rows);
  add_attention(rows);
  add_checkpoint(rows);
  const auto drop = [](const Tensor& x) {
    manual_seed(9);
    return dropout(x, 0.4);
  };
  add_unary(rows, "dropout", drop, signed_values);
  const Tensor index = tensor({{2, 0}, {2, 4}});
  const Apply look_up = [=](const Tensors& in) { return embedding(in[0], index); };
  const Apply padded = [=](const Tensors& in) { return embedding(in[0], index, 2); };
  add_shapes(rows, "embedding", "", look_up, {{5, 3}});
  add_shapes(rows, "embedding_backward", "", transpose_of(look_up, {5, 3}), {{2, 2, 3}});
  add_shapes(rows, "embedding_backward", "with padding,", transpose_of(padded, {5, 3}), {{2, 2, 3}});
  add_shapes(rows, "embedding", "nothing of", [](const Tensors& in) { return embedding(in[0], zeros({0}, int64)); },
             {{5, 3}});
  const Apply affine = [](const Tensors& in) { return linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor()); };
  const Apply activated = [](const Tensors& in) { return gelu_linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor()); };
  for (const Shape& shape : {Shape{4, 3}, Shape{3}, Shape{2, 2, 3}, Shape{0, 3}, Shape{1, 17}}) {
    add_shapes(rows, "gelu_linear", "", activated, {shape, {2, shape.back()}, {2}});
    add_shapes(rows, "gelu_linear", "no bias,", activated, {shape, {2, shape.back()}});
    add_shapes(rows, "linear", "", affine, {shape, {2, shape.back()}, {2}});
    add_shapes(rows, "linear", "no bias,", affine, {shape, {2, shape.back()}});
  }
  const auto loss = [&rows](const Shape& shape, const Tensor& targets) {
    add_shapes(rows, "cross_entropy_rows", "", [=](const Tensors& in) { return cross_entropy_rows(in[0], targets); },
               {shape});
  };
  loss({3, 4}, tensor({1, -100, 3}));
  loss({2, 19}, tensor({18, 0}));
  loss({1, 1}, tensor({0}));
  loss({0, 3}, zeros({0}, int64));
}

}  // namespace tapegrad::table
