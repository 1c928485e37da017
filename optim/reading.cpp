#include <tapegrad/optim/reading.hpp>

#include <fmt/format.h>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::optim {

const Tensor* Reading::get(const std::string& entry, const Tensor& like) {
  read_.insert(entry);
  const Tensor* found = entries_.find(entry);
  if (!found) {
    missing_.push_back(entry);
    return nullptr;
  }
  const bool same_kind = found->dtype() == like.dtype() || (is_floating(found->dtype()) && is_floating(like.dtype()));
  if (same_kind && found->shape() == like.shape()) return found;
  wrong(entry, fmt::format("{} {}, got {} {}", like.dtype(), like.shape(), found->dtype(), found->shape()));
  return nullptr;
}

void Reading::finish() const {
  std::vector<std::string> unexpected;
  for (const auto& [entry, tensor] : entries_)
    if (!read_.contains(entry)) unexpected.push_back(entry);
  std::string faults;
  for (const auto& [kind, list] : {std::pair{"wrong", &wrong_}, {"missing", &missing_}, {"unexpected", &unexpected}})
    if (!list->empty()) faults += fmt::format("; {}: {}", kind, fmt::join(*list, ", "));
  require(faults.empty(),
          "{}::load_state_dict: entries must be like those of its own state_dict(){}; nothing was loaded", name_,
          faults);
}

}  // namespace tapegrad::optim
