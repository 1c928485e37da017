#include <tapegrad/optim/muon.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/core/threads.hpp>
#include <tapegrad/optim/settings.hpp>

namespace tapegrad::optim {

Muon::Muon(std::vector<ParamGroup> groups, const MuonOptions& options)
    : Optimizer("Muon", {"momentum_buffer", "exp_avg", "exp_avg_sq"},
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .momentum = options.momentum,
                 .nesterov = options.nesterov,
                 .eps = options.eps,
                 .ns_steps = options.ns_steps,
                 .adjust_lr = options.adjust_lr,
                 .use_muon = true}),
      adamw_({.lr = options.adamw.lr,
              .weight_decay = options.adamw.weight_decay,
              .betas = options.adamw.betas,
              .eps = options.adamw.eps,
              .use_muon = false}) {
  require(!options.adamw.amsgrad && !options.adamw.maximize,
          "Muon: AdamW's amsgrad and maximize must be false; got true; use an optimizer for each");
  start(std::move(groups));
}

Muon::Muon(const std::vector<NamedTensor>& parameters, const MuonOptions& options,
           const std::vector<std::string>& excluded)
    : Muon(muon_groups(parameters, excluded), options) {}

const ParamGroup& Muon::defaults(const ParamGroup& group) const {
  return group.use_muon.value_or(true) ? Optimizer::defaults(group) : adamw_;
}

void Muon::check(const ParamGroup& group) const {
  if (*group.use_muon == group.betas.has_value())  // a state dict said so
    throw ValueError(fmt::format("Muon: use_muon must stay what the group was made with; got {}", *group.use_muon));
  if (!*group.use_muon) return;
  require(*group.adjust_lr == AdjustLr::original || *group.adjust_lr == AdjustLr::match_rms_adamw,
          "Muon: adjust_lr must be one of two; got {}", static_cast<int>(*group.adjust_lr));
  require(*group.momentum < 1, "Muon: momentum must be in [0, 1); got {}", *group.momentum);
  require(*group.eps > 0, "Muon: eps must be positive; got {}", *group.eps);
  require(*group.ns_steps >= 1 && *group.ns_steps <= 100, "Muon: ns_steps must be from 1 to 100; got {}",
          *group.ns_steps);
  for (const Tensor& parameter : group.parameters)
    require(parameter.rank() == 2,
            "Muon: parameters must be matrices; got shape {}; put it in a group with use_muon = false",
            parameter.shape());
}

std::array<bool, Optimizer::kSlots> Muon::needs(const ParamGroup& group) const {
  return {*group.use_muon, !*group.use_muon, !*group.use_muon};
}

void Muon::update(const Item& item, std::int64_t begin, std::int64_t end) const {
  core::kernels::adam_step({begin, end}, item.parameter, item.gradient, item.state->slots[1], item.state->slots[2], {},
                           true, step_of(item));
}

void Muon::update_all(std::span<Item> items) const {
  const auto rest = std::partition(items.begin(), items.end(), [](const Item& item) { return *item.group->use_muon; });
  const std::span<Item> matrices(items.begin(), rest);
  std::sort(matrices.begin(), matrices.end(),
            [](const Item& a, const Item& b) { return a.parameter.numel() > b.parameter.numel(); });
  // Each matrix on one thread, the large ones first; one alone gets all threads inside its products.
  core::parallel_for(static_cast<std::int64_t>(matrices.size()), [&](std::int64_t i) {
    const Item& item = matrices[static_cast<std::size_t>(i)];
    const auto rows = static_cast<double>(item.parameter.size(0)),
               columns = static_cast<double>(item.parameter.size(1));
    const double scale = *item.group->adjust_lr == AdjustLr::original ? std::sqrt(std::max(1.0, rows / columns))
                                                                      : 0.2 * std::sqrt(std::max(rows, columns));
    core::kernels::muon_step(item.parameter, item.gradient, item.state->slots[0], *item.group->ns_steps, scale,
                             step_of(item));
  });
  sweep({rest, items.end()});
}

std::vector<ParamGroup> muon_groups(const std::vector<NamedTensor>& parameters,
                                    const std::vector<std::string>& excluded) {
  std::vector<ParamGroup> groups = {{.use_muon = true}, {.use_muon = false}, {.use_muon = false}};
  const auto is_under = [](const std::string& name, const std::string& above) {
    return name == above || name.rfind(above + ".", 0) == 0;
  };
  for (const std::string& name : excluded)
    if (std::none_of(parameters.begin(), parameters.end(), [&](const auto& p) { return is_under(p.name, name); }))
      throw ValueError(
          fmt::format("muon_groups: an excluded name must be that of a parameter or a module; got \"{}\"", name));
  for (const auto& [name, tensor] : parameters) {
    const bool out =
        std::any_of(excluded.begin(), excluded.end(), [&, n = name](const auto& e) { return is_under(n, e); });
    groups[tensor.rank() < 2 ? 2 : out || tensor.rank() > 2 ? 1 : 0].parameters.push_back(tensor);
  }
  return groups;
}

}  // namespace tapegrad::optim
