// Layers and losses that PyTorch has too: values, and gradients of inputs and parameters.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <tapegrad/nn/embedding.hpp>
#include <tapegrad/nn/layer_norm.hpp>
#include <tapegrad/nn/linear.hpp>
#include <tapegrad/nn/losses.hpp>
#include <tapegrad/nn/multi_head_attention.hpp>

#include "reference/cases.hpp"

namespace tapegrad::reference {
namespace {

/// What a case gives: the output, and the tensors that its gradients belong to.
struct Result {
  Tensor output;
  Tensors inputs;
};
using Layer = std::function<Result(const Tensors&, const Json&)>;

nn::Reduction reduction_of(const Json& at) {
  const std::string name = at["reduction"];
  return name == "none" ? nn::Reduction::none : name == "sum" ? nn::Reduction::sum : nn::Reduction::mean;
}

/// Puts the values behind the first input into the module's parameters, and returns both.
Tensors with_parameters(nn::Module& module, const Tensors& in) {
  module.to(float64);
  const Tensors parameters = module.parameters();
  EXPECT_EQ(parameters.size() + 1, in.size());
  Tensors all{in[0]};
  NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size() && i + 1 < in.size(); ++i) {
    EXPECT_EQ(parameters[i].shape(), in[i + 1].shape());
    core::copy_into(parameters[i].mutable_array(), in[i + 1].array());
    all.push_back(parameters[i]);
  }
  return all;
}

Result cross_entropy(const Tensors& in, const Json& at) {
  nn::CrossEntropyOptions options{.reduction = reduction_of(at)};
  if (at.contains("weight")) options.weight = from_vector(at["weight"].get<std::vector<double>>(), {3}, float64);
  if (at.contains("label_smoothing")) options.label_smoothing = at["label_smoothing"];
  return {nn::cross_entropy(in[0], in[1], options), in};
}

Result attention(const Tensors& in, const Json& at) {
  nn::MultiHeadAttention layer(at["width"], at["heads"], {.bias = at["bias"].get<bool>()});
  const Tensors all = with_parameters(layer, in);
  Tensor mask;
  if (!at["mask"].is_null()) {
    std::vector<std::int64_t> allowed;
    for (const Json& row : at["mask"])
      for (const Json& value : row) allowed.push_back(value);
    mask = from_vector(allowed, {5, 5});
  }
  return {layer(all[0], {.mask = mask, .is_causal = at["causal"].get<bool>()}), all};
}

const std::map<std::string, Layer> layers = {
    {"mse_loss",
     [](const Tensors& in, const Json& at) {
       return Result{nn::mse_loss(in[0], in[1], {.reduction = reduction_of(at)}), in};
     }},
    {"cross_entropy", cross_entropy},
    {"cross_entropy_probabilities", cross_entropy},
    {"Linear",
     [](const Tensors& in, const Json& at) {
       nn::Linear layer(in[1].size(1), in[1].size(0), {.bias = at["bias"].get<bool>()});
       const Tensors all = with_parameters(layer, in);
       return Result{layer(all[0]), all};
     }},
    {"LayerNorm",
     [](const Tensors& in, const Json& at) {
       nn::LayerNorm layer(shape_of(at["shape"]));
       const Tensors all = with_parameters(layer, in);
       return Result{layer(all[0]), all};
     }},
    {"Embedding",
     [](const Tensors& in, const Json& at) {
       nn::Embedding layer(at["rows"], at["width"]);
       const Tensors all = with_parameters(layer, in);
       return Result{layer(all[0]), all};
     }},
    {"MultiHeadAttention", attention},
};

TEST(Reference, LayersMatchPyTorch) {
  for (const Json& one : read("layers.json")) {
    const std::string name = one["operation"];
    SCOPED_TRACE(name + " " + one["arguments"].dump());
    Tensors inputs = tensors_of(one["inputs"]);
    for (Tensor& input : inputs)
      if (is_floating(input.dtype())) input.requires_grad_();
    const Result result = layers.at(name)(inputs, one["arguments"]);
    EXPECT_LE(distance(tensor_of(one["outputs"][0]), result.output), 1e-10) << result.output.to_string();
    result.output.backward(tensor_of(one["cotangents"][0]));
    for (std::size_t i = 0; i < result.inputs.size(); ++i) {
      if (one["gradients"][i].is_null()) continue;
      EXPECT_LE(distance(tensor_of(one["gradients"][i]), result.inputs[i].grad()), 1e-10) << "gradient " << i;
    }
  }
}

}  // namespace
}  // namespace tapegrad::reference
