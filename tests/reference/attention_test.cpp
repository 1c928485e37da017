// Attention with its options against the same written out in PyTorch: values and gradients, on both paths.
#include <gtest/gtest.h>

#include <tapegrad/nn/attention.hpp>
#include <tapegrad/tapegrad.hpp>

#include "reference/cases.hpp"

namespace tapegrad::reference {
namespace {

nn::AttentionOptions options_of(const Json& at) {
  nn::AttentionOptions options{.is_causal = at.contains("causal"), .enable_gqa = true};
  if (at.contains("window")) options.window = nn::Window(at["window"][0], at["window"][1]);
  if (at.contains("scale")) options.scale = at["scale"].get<double>();
  if (at.contains("key_lengths"))
    options.key_lengths = from_vector(at["key_lengths"].get<std::vector<std::int64_t>>(), {2, 1});
  if (at.contains("mask")) {
    std::vector<std::int64_t> allowed;
    for (const Json& row : at["mask"])
      for (const Json& value : row) allowed.push_back(value);
    options.mask = from_vector(allowed, {4, 5});
  }
  return options;
}

}  // namespace

TEST(AttentionReference, ValuesAndGradientsEqualPyTorchs) {
  const Json cases = read("attention.json");
  EXPECT_EQ(cases.size(), 12U);
  for (const Json& one : cases) {
    const Tensors outputs = tensors_of(one["outputs"]), cotangents = tensors_of(one["cotangents"]),
                  gradients = tensors_of(one["gradients"]);
    for (const bool fused : {false, true}) {
      Tensors in = tensors_of(one["inputs"]);
      for (Tensor& x : in)
        if (x.defined()) x.requires_grad_();
      nn::AttentionOptions options = options_of(one["arguments"]);
      options.bias = in[3];
      options.need_weights = !fused;
      const auto result = nn::scaled_dot_product_attention(in[0], in[1], in[2], options);
      Tensor weights = result.weights;
      if (fused) {  // all of them, head by head
        Tensors heads;
        for (std::int64_t n = 0; n < 2; ++n)
          for (std::int64_t h = 0; h < 4; ++h) heads.push_back(result.weights_of(n, h, 0, in[0].size(2)));
        weights = stack(heads).reshape(outputs[1].shape());
      }
      EXPECT_LE(distance(outputs[0], result.output.detach()), 1e-12) << one["arguments"];
      EXPECT_LE(distance(outputs[1], weights.detach()), 1e-12) << one["arguments"];
      ((result.output * cotangents[0]).sum() + (weights * cotangents[1]).sum()).backward();
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i].defined()) {
          EXPECT_LE(distance(gradients[i], in[i].grad()), 1e-12) << one["arguments"] << ", input " << i;
        }
      }
    }
  }
}

}  // namespace tapegrad::reference
