#include "recipe.hpp"

#include <algorithm>

namespace toy_lm {

namespace optim = tg::optim;

std::unique_ptr<optim::Optimizer> make_optimizer(const Gpt& model, const TrainOptions& options) {
  const std::pair<double, double> betas = {0.9, options.beta2};
  if (options.optimizer == "muon") {
    std::vector<std::string> not_inside = {"token"};
    if (model.config().blocks == "gpt2") not_inside.push_back("position");
    return std::make_unique<optim::Muon>(
        model.named_parameters(),
        optim::MuonOptions{.lr = options.muon_lr,
                           .weight_decay = options.weight_decay,
                           .adamw = {.lr = options.lr, .betas = betas, .weight_decay = 0.0}},
        not_inside);
  }
  auto groups = optim::decay_groups(model.parameters(), options.weight_decay);
  if (options.optimizer == "sgd")
    return std::make_unique<optim::SGD>(std::move(groups), optim::SGDOptions{.lr = options.lr, .momentum = 0.9});
  if (options.optimizer == "adam")
    return std::make_unique<optim::Adam>(std::move(groups), optim::AdamOptions{.lr = options.lr, .betas = betas});
  if (options.optimizer == "lion")
    return std::make_unique<optim::Lion>(std::move(groups), optim::LionOptions{.lr = options.lr, .betas = betas});
  if (options.optimizer == "rmsprop")
    return std::make_unique<optim::RMSprop>(std::move(groups),
                                            optim::RMSpropOptions{.lr = options.lr, .alpha = options.beta2});
  return std::make_unique<optim::AdamW>(std::move(groups), optim::AdamWOptions{.lr = options.lr, .betas = betas});
}

optim::Curve make_schedule(const TrainOptions& options) {
  return optim::CosineOptions{.total_steps = options.schedule_steps,
                              .warmup_steps = std::min(options.warmup, options.schedule_steps),
                              .min_lr = options.min_lr};
}

void use_best_recipe(TrainOptions& options) {
  options.model.blocks = "modern";
  options.optimizer = "muon";
  options.muon_lr = 0.02;
  options.lr = 4e-3;
  options.min_lr = 0.0;
  options.weight_decay = 0.05;
  options.ema = 0.99;
}

}  // namespace toy_lm
