// Twenty steps of each optimizer with given gradients, clipping, and the cosine schedule, beside PyTorch.
#include <gtest/gtest.h>

#include <memory>
#include <tapegrad/optim/adam.hpp>
#include <tapegrad/optim/clip.hpp>
#include <tapegrad/optim/schedule.hpp>
#include <tapegrad/optim/sgd.hpp>

#include "reference/cases.hpp"

namespace tapegrad::reference {
namespace {

template <class Options>
Options adam_options(const Json& at) {
  Options options;
  options.lr = at["lr"];
  if (at.contains("betas")) options.betas = {at["betas"][0], at["betas"][1]};
  options.eps = at.value("eps", options.eps);
  options.weight_decay = at.value("weight_decay", options.weight_decay);
  return options;
}

std::unique_ptr<optim::Optimizer> make(const std::string& kind, const Tensors& parameters, const Json& at) {
  if (kind == "Adam") return std::make_unique<optim::Adam>(parameters, adam_options<optim::AdamOptions>(at));
  if (kind == "AdamW") return std::make_unique<optim::AdamW>(parameters, adam_options<optim::AdamWOptions>(at));
  const optim::SGDOptions options{.lr = at["lr"],
                                  .momentum = at.value("momentum", 0.0),
                                  .dampening = at.value("dampening", 0.0),
                                  .weight_decay = at.value("weight_decay", 0.0),
                                  .nesterov = at.value("nesterov", false)};
  return std::make_unique<optim::SGD>(parameters, options);
}

/// Of the same shape as `like`; undefined for null.
Tensor values_like(const Tensor& like, const Json& values) {
  return values.is_null() ? Tensor() : from_vector(values.get<std::vector<double>>(), like.shape(), like.dtype());
}

void follow(const Json& one, Dtype dtype, double tolerance) {
  Tensors parameters = tensors_of(one["start"]);
  for (Tensor& parameter : parameters) parameter = parameter.to(dtype).clone().requires_grad_();
  const auto optimizer = make(one["optimizer"], parameters, one["options"]);
  for (std::size_t step = 0; step < one["values"].size(); ++step) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].set_grad(values_like(parameters[i], one["gradients"][step][i]));
    optimizer->step();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      ASSERT_LE(distance(values_like(parameters[i], one["values"][step][i]), parameters[i].detach()), tolerance)
          << "step " << step << ", parameter " << i;
  }
}

TEST(Reference, OptimizersFollowPyTorch) {
  const Json file = read("optimizers.json");
  ASSERT_FALSE(file["trajectories"].empty());
  for (const Json& one : file["trajectories"]) {
    SCOPED_TRACE(one["optimizer"].get<std::string>() + " " + one["options"].dump());
    follow(one, float64, 1e-12);
    follow(one, float32, 2e-6);
  }
}

TEST(Reference, ClippingMatchesPyTorch) {
  const Json file = read("optimizers.json");
  ASSERT_FALSE(file["clipping"].empty());
  for (const Json& one : file["clipping"]) {
    Tensors parameters;
    for (const Json& gradient : one["before"]) {
      const Tensor value = tensor_of(gradient);
      parameters.push_back(zeros_like(value).requires_grad_());
      parameters.back().set_grad(value);
    }
    EXPECT_NEAR(optim::clip_grad_norm(parameters, one["max_norm"]), one["norm"].get<double>(), 1e-12);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_LE(distance(tensor_of(one["after"][i]), parameters[i].grad()), 1e-12);
  }
}

TEST(Reference, CosineScheduleMatchesPyTorch) {
  const Json file = read("optimizers.json");
  ASSERT_FALSE(file["cosine"].empty());
  for (const Json& one : file["cosine"]) {
    optim::SGD optimizer({zeros({1}).requires_grad_()}, {.lr = one["lr"]});
    optim::CosineSchedule schedule(optimizer, {.total_steps = one["total_steps"], .min_lr = one["min_lr"]});
    for (const Json& rate : one["rates"]) {
      EXPECT_NEAR(optimizer.lr(), rate.get<double>(), 1e-12);
      schedule.step();
    }
  }
}

}  // namespace
}  // namespace tapegrad::reference
