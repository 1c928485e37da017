// Losses with every reduction, at usual and at extreme values, and layers with options, beside PyTorch.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "reference/cases.hpp"

namespace tapegrad::reference {
namespace {

/// Of numbers in one or two levels of lists; undefined if there is no such argument.
Tensor argument(const Json& at, const char* name) {
  if (!at.contains(name)) return {};
  const Json& rows = at[name];
  if (!rows[0].is_array()) return from_vector(rows.get<std::vector<double>>(), {std::int64_t(rows.size())}, float64);
  std::vector<double> values;
  for (const Json& row : rows)
    for (const double value : row) values.push_back(value);
  return from_vector(values, {std::int64_t(rows.size()), std::int64_t(rows[0].size())}, float64);
}

nn::Reduction reduction_of(const Json& at) {
  const std::string name = at["reduction"];
  return name == "none" ? nn::Reduction::none : name == "sum" ? nn::Reduction::sum : nn::Reduction::mean;
}

Tensor kl_div(const Tensors& in, const Json& at) {
  const std::map<std::string, nn::KlReduction> reductions = {{"none", nn::KlReduction::none},
                                                             {"mean", nn::KlReduction::mean},
                                                             {"sum", nn::KlReduction::sum},
                                                             {"batchmean", nn::KlReduction::batchmean}};
  return nn::kl_div(in[0], in.size() > 1 ? in[1] : argument(at, "target"),
                    {.reduction = reductions.at(at["reduction"]), .log_target = at["log_target"]});
}

using Loss = Tensor (*)(const Tensors&, const Json&);
const std::map<std::string, Loss> losses = {
    {"mse_loss", [](auto& in, auto& at) { return nn::mse_loss(in[0], in[1], {.reduction = reduction_of(at)}); }},
    {"l1_loss", [](auto& in, auto& at) { return nn::l1_loss(in[0], in[1], {.reduction = reduction_of(at)}); }},
    {"smooth_l1_loss",
     [](auto& in, auto& at) {
       return nn::smooth_l1_loss(in[0], in[1], {.beta = at["beta"], .reduction = reduction_of(at)});
     }},
    {"huber_loss",
     [](auto& in, auto& at) {
       return nn::huber_loss(in[0], in[1], {.delta = at["delta"], .reduction = reduction_of(at)});
     }},
    {"binary_cross_entropy_with_logits",
     [](auto& in, auto& at) {
       return nn::binary_cross_entropy_with_logits(
           in[0], in[1],
           {.weight = argument(at, "weight"), .pos_weight = argument(at, "pos_weight"), .reduction = reduction_of(at)});
     }},
    {"kl_div", kl_div},
    {"nll_loss",
     [](auto& in, auto& at) {
       return nn::nll_loss(in[0], in[1],
                           {.weight = argument(at, "weight"),
                            .ignore_index = at.value("ignore_index", std::int64_t{-100}),
                            .reduction = reduction_of(at)});
     }},
    {"cross_entropy",
     [](auto& in, auto& at) {
       return nn::cross_entropy(in[0], in[1],
                                {.weight = argument(at, "weight"),
                                 .ignore_index = at.value("ignore_index", std::int64_t{-100}),
                                 .reduction = reduction_of(at),
                                 .label_smoothing = at["label_smoothing"]});
     }},
};

template <class M>
Tensor call(M layer, Tensors& in) {
  layer.to(float64);
  const Tensors parameters = layer.parameters();
  EXPECT_EQ(parameters.size() + 1, in.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    NoGradGuard no_grad;
    core::copy_into(parameters[i].mutable_array(), in[i + 1].array());
    in[i + 1] = parameters[i];
  }
  return layer(in[0]);
}

/// They put their parameters, with the values given, in the places of the inputs behind the first.
using Layer = Tensor (*)(Tensors&, const Json&);
const std::map<std::string, Layer> layers = {
    {"LayerNorm",
     [](Tensors& in, const Json& at) {
       return call(nn::LayerNorm(shape_of(at["shape"]),
                                 {.eps = at["eps"], .elementwise_affine = at["affine"] > 0, .bias = at["affine"] > 1}),
                   in);
     }},
    {"RMSNorm",
     [](Tensors& in, const Json& at) {
       return call(at.contains("eps") ? nn::RMSNorm(4, at["eps"].get<double>()) : nn::RMSNorm(4), in);
     }},
    {"Embedding",
     [](Tensors& in, const Json& at) {
       return call(nn::Embedding(4, 3, {.padding_idx = at["padding_idx"].get<std::int64_t>()}), in);
     }},
    {"SwiGLU", [](Tensors& in, const Json& at) { return call(nn::SwiGLU(4, 6, {.bias = at.contains("bias")}), in); }},
    {"ReLU", [](Tensors& in, const Json&) { return nn::ReLU()(in[0]); }},
    {"LeakyReLU",
     [](Tensors& in, const Json& at) {
       return (at.contains("negative_slope") ? nn::LeakyReLU(at["negative_slope"]) : nn::LeakyReLU())(in[0]);
     }},
    {"ELU",
     [](Tensors& in, const Json& at) { return (at.contains("alpha") ? nn::ELU(at["alpha"]) : nn::ELU())(in[0]); }},
    {"GELU",
     [](Tensors& in, const Json& at) {
       return (at.contains("approximate") ? nn::GELU(GeluApproximation::tanh) : nn::GELU())(in[0]);
     }},
    {"SiLU", [](Tensors& in, const Json&) { return nn::SiLU()(in[0]); }},
    {"Tanh", [](Tensors& in, const Json&) { return nn::Tanh()(in[0]); }},
    {"Sigmoid", [](Tensors& in, const Json&) { return nn::Sigmoid()(in[0]); }},
    {"Softplus", [](Tensors& in, const Json&) { return nn::Softplus()(in[0]); }},
    {"Softmax", [](Tensors& in, const Json& at) { return nn::Softmax(at.value("axis", 0))(in[0]); }},
    {"LogSoftmax", [](Tensors& in, const Json& at) { return nn::LogSoftmax(at.value("axis", 0))(in[0]); }},
};

TEST(Reference, LossesAndOptionsOfLayersMatchPyTorch) {
  int seen = 0;
  for (const Json& one : read("losses.json")) {
    const std::string name = one["operation"];
    const Json& arguments = one["arguments"];
    SCOPED_TRACE(name + " " + arguments.dump());
    Tensors inputs = tensors_of(one["inputs"]);
    for (Tensor& input : inputs)
      if (is_floating(input.dtype())) input.requires_grad_();
    const Tensor output =
        losses.contains(name) ? losses.at(name)(inputs, arguments) : layers.at(name)(inputs, arguments);
    EXPECT_LE(distance(tensor_of(one["outputs"][0]), output), 1e-12) << output.to_string();
    output.backward(tensor_of(one["cotangents"][0]));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (one["gradients"][i].is_null()) continue;
      EXPECT_LE(distance(tensor_of(one["gradients"][i]), inputs[i].grad()), 1e-12)
          << "gradient " << i << ": " << inputs[i].grad().to_string() << " of " << inputs[i].to_string();
    }
    ++seen;
  }
  EXPECT_GT(seen, 200);
}

}  // namespace
}  // namespace tapegrad::reference
