// Twenty steps of each optimizer with each option, and each schedule over its whole range, beside PyTorch.
#include <gtest/gtest.h>

#include <memory>

#include "reference/cases.hpp"

namespace tapegrad::reference {
namespace {

template <class T>
void read_into(std::optional<T>& to, const Json& at, const char* name) {
  if (at.contains(name)) to = at[name].get<T>();
}

/// All that `at` names.
optim::ParamGroup group_of(Tensors parameters, const Json& at) {
  optim::ParamGroup group{.parameters = std::move(parameters)};
  read_into(group.lr, at, "lr");
  read_into(group.weight_decay, at, "weight_decay");
  read_into(group.momentum, at, "momentum");
  read_into(group.dampening, at, "dampening");
  read_into(group.nesterov, at, "nesterov");
  read_into(group.eps, at, "eps");
  read_into(group.amsgrad, at, "amsgrad");
  read_into(group.alpha, at, "alpha");
  read_into(group.centered, at, "centered");
  read_into(group.maximize, at, "maximize");
  read_into(group.ns_steps, at, "ns_steps");
  if (at.contains("adjust_lr")) group.adjust_lr = optim::AdjustLr::match_rms_adamw;
  if (at.contains("betas")) group.betas = {at["betas"][0].get<double>(), at["betas"][1].get<double>()};
  return group;
}

std::unique_ptr<optim::Optimizer> make(const std::string& kind, const std::vector<optim::ParamGroup>& groups) {
  if (kind == "SGD") return std::make_unique<optim::SGD>(groups);
  if (kind == "Adam") return std::make_unique<optim::Adam>(groups);
  if (kind == "AdamW") return std::make_unique<optim::AdamW>(groups);
  if (kind == "RMSprop") return std::make_unique<optim::RMSprop>(groups);
  if (kind == "Lion") return std::make_unique<optim::Lion>(groups);
  return std::make_unique<optim::Muon>(groups);
}

std::vector<optim::ParamGroup> groups_of(const Tensors& parameters, const Json& run) {
  const Json& options = run["options"];
  if (run["optimizer"] == "Muon") {
    optim::ParamGroup rest = group_of({parameters[2], parameters[3]}, options.value("adamw", Json::object()));
    rest.use_muon = false;
    return {group_of({parameters[0], parameters[1]}, options), rest};
  }
  if (run["override"].is_null()) return {group_of(parameters, options)};
  Json second = options;
  second.update(run["override"]);
  return {group_of({parameters[0], parameters[1]}, options), group_of({parameters[2], parameters[3]}, second)};
}

void follow(const Json& file, const Json& run, Dtype dtype, double tolerance) {
  Tensors parameters;
  const auto values_like = [&](std::size_t i, const Json& values) {
    return from_vector(values.get<std::vector<double>>(), shape_of(file["shapes"][i]), dtype);
  };
  for (std::size_t i = 0; i < file["start"].size(); ++i)
    parameters.push_back(values_like(i, file["start"][i]).requires_grad_());
  const auto optimizer = make(run["optimizer"], groups_of(parameters, run));
  for (std::size_t step = 0; step < run["values"].size(); ++step) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Json& gradient = file["gradients"][step][i];
      parameters[i].set_grad(gradient.is_null() ? Tensor() : values_like(i, gradient));
    }
    optimizer->step();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      ASSERT_LE(distance(values_like(i, run["values"][step][i]), parameters[i].detach()), tolerance)
          << "step " << step << ", parameter " << i;
  }
}

TEST(Reference, EveryOptionOfEveryOptimizerFollowsPyTorch) {
  const Json file = read("optimizer_options.json");
  ASSERT_EQ(file["runs"].size(), 30u);
  for (const Json& run : file["runs"]) {
    SCOPED_TRACE(run["optimizer"].get<std::string>() + " " + run["options"].dump() + " " + run["override"].dump());
    follow(file, run, float64, 1e-10);
    if (run["optimizer"] != "Lion") follow(file, run, float32, 1e-4);  // a sign may fall either way
  }
}

optim::Curve curve_of(const std::string& kind, const Json& at) {
  if (kind == "StepLR") return optim::StepLROptions{.step_size = at["step_size"], .gamma = at.value("gamma", 0.1)};
  if (kind == "MultiStepLR")
    return optim::MultiStepLROptions{.milestones = at["milestones"], .gamma = at.value("gamma", 0.1)};
  if (kind == "ExponentialLR") return optim::ExponentialLROptions{.gamma = at["gamma"]};
  if (kind == "LambdaLR")
    return optim::LambdaLROptions{
        .lr_lambda = [](std::int64_t step) { return 1.0 / (1.0 + static_cast<double>(step)); }};
  if (kind == "LinearLR") {
    const optim::LinearLROptions own;
    return optim::LinearLROptions{.start_factor = at.value("start_factor", own.start_factor),
                                  .end_factor = at.value("end_factor", own.end_factor),
                                  .total_iters = at.value("total_iters", own.total_iters)};
  }
  if (kind == "ConstantLR") {
    const optim::ConstantLROptions own;
    return optim::ConstantLROptions{.factor = at.value("factor", own.factor),
                                    .total_iters = at.value("total_iters", own.total_iters)};
  }
  if (kind == "CosineAnnealingLR")
    return optim::CosineAnnealingLROptions{.T_max = at["T_max"], .eta_min = at.value("eta_min", 0.0)};
  if (kind == "CosineAnnealingWarmRestarts")
    return optim::CosineAnnealingWarmRestartsOptions{
        .T_0 = at["T_0"], .T_mult = at.value("T_mult", std::int64_t{1}), .eta_min = at.value("eta_min", 0.0)};
  if (kind == "OneCycleLR") {
    optim::OneCycleLROptions options{.total_steps = at["total_steps"]};
    read_into(options.max_lr, at, "max_lr");
    options.pct_start = at.value("pct_start", options.pct_start);
    options.div_factor = at.value("div_factor", options.div_factor);
    options.final_div_factor = at.value("final_div_factor", options.final_div_factor);
    if (at.contains("anneal_strategy")) options.anneal = optim::Anneal::linear;
    return options;
  }
  optim::SequentialLROptions options{.schedules = {}, .milestones = at["milestones"]};
  for (const Json& one : at["schedules"]) options.schedules.push_back(curve_of(one[0], one[1]));
  return options;
}

optim::SGD two_groups(const Json& bases) {
  return optim::SGD({{.parameters = {zeros({1})}, .lr = bases[0].get<double>()},
                     {.parameters = {zeros({1})}, .lr = bases[1].get<double>()}});
}

TEST(Reference, SchedulesMatchPyTorch) {
  const Json file = read("schedules.json");
  ASSERT_EQ(file["schedules"].size(), 23u);
  for (const Json& one : file["schedules"]) {
    SCOPED_TRACE(one["kind"].get<std::string>() + " " + one["options"].dump());
    optim::SGD optimizer = two_groups(one["bases"]);
    optim::Schedule schedule(optimizer, curve_of(one["kind"], one["options"]));
    for (const Json& rates : one["rates"]) {
      for (std::size_t group = 0; group < 2; ++group) {
        ASSERT_NEAR(optimizer.lr(group), rates[group].get<double>(), 1e-13) << "step " << schedule.steps();
        ASSERT_EQ(schedule.lr_at(schedule.steps(), group), optimizer.lr(group));
      }
      schedule.step();
    }
  }
}

TEST(Reference, ReduceLROnPlateauMatchesPyTorch) {
  const Json file = read("schedules.json");
  ASSERT_EQ(file["plateaus"].size(), 7u);
  for (const Json& one : file["plateaus"]) {
    SCOPED_TRACE(one["options"].dump());
    optim::ReduceLROnPlateauOptions options;
    const Json& at = one["options"];
    if (at.contains("mode")) options.mode = optim::PlateauMode::max;
    if (at.contains("threshold_mode")) options.threshold_mode = optim::ThresholdMode::abs;
    options.factor = at.value("factor", options.factor);
    options.patience = at.value("patience", options.patience);
    options.threshold = at.value("threshold", options.threshold);
    options.cooldown = at.value("cooldown", options.cooldown);
    options.min_lr = at.value("min_lr", options.min_lr);
    options.eps = at.value("eps", options.eps);
    optim::SGD optimizer = two_groups(Json::array({0.1, 0.03}));
    optim::ReduceLROnPlateau plateau(optimizer, options);
    for (std::size_t i = 0; i < one["values"].size(); ++i) {
      plateau.step(one["values"][i]);
      for (std::size_t group = 0; group < 2; ++group)
        ASSERT_NEAR(optimizer.lr(group), one["rates"][i][group].get<double>(), 1e-15) << "value " << i;
    }
  }
}

}  // namespace
}  // namespace tapegrad::reference
