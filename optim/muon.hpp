// Muon (Jordan, 2024) for matrices, and AdamW for the rest, in one object.
#pragma once
#include <tapegrad/optim/adam.hpp>

namespace tapegrad::optim {

struct MuonOptions {
  double lr = 0.02;
  double weight_decay = 0.0;
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  AdjustLr adjust_lr = AdjustLr::original;
  double eps = 1e-7;
  /// For the groups with use_muon = false.
  AdamWOptions adamw = {};
};

/// b = momentum b + (1 - momentum) g; d = b, or (1 - momentum) g + momentum b with nesterov; d is brought close to the
/// nearest orthogonal matrix by ns_steps of Newton and Schulz's iteration, with coefficients (3.4445, -4.7750, 2.0315);
/// p = (1 - lr weight_decay) p - lr scale d, where adjust_lr says which scale. For matrices inside the network: not for
/// embeddings, nor for the layer that gives the logits. ValueError for another rank.
class Muon final : public Optimizer {
 public:
  /// Groups of matrices, and groups with use_muon = false, which take AdamW's settings.
  explicit Muon(std::vector<ParamGroup> groups, const MuonOptions& options = {});
  /// muon_groups(parameters, excluded).
  explicit Muon(const std::vector<NamedTensor>& parameters, const MuonOptions& options = {},
                const std::vector<std::string>& excluded = {});

 private:
  const ParamGroup& defaults(const ParamGroup& group) const override;
  void check(const ParamGroup& group) const override;
  std::array<bool, kSlots> needs(const ParamGroup& group) const override;
  void update(const Item& item, std::int64_t begin, std::int64_t end) const override;
  void update_all(std::span<Item> items) const override;

  ParamGroup adamw_;  // the settings of a group without use_muon
};

/// Three groups: matrices, for Muon; the matrices (and what has more dimensions) that are `excluded`, by their name or
/// that of a module above them ("embedding"); the rest (biases, norms). Both of these with use_muon = false. ValueError
/// if a name is nobody's.
std::vector<ParamGroup> muon_groups(const std::vector<NamedTensor>& parameters,
                                    const std::vector<std::string>& excluded = {});

}  // namespace tapegrad::optim
