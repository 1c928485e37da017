#include <tapegrad/autograd/explain.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/grad.hpp>
#include <tapegrad/autograd/sweep.hpp>
#include <tapegrad/autograd/walk.hpp>

namespace tapegrad::autograd {
namespace {

std::string described(const Entry& entry) { return fmt::format("{} (number {})", entry.name(), entry.number()); }

/// The largest magnitude; NaN if there is one.
double largest(const Tensor& tensor) {
  double found = 0;
  for (const double value : tensor.to_vector<double>()) {
    if (std::isnan(value)) return value;
    found = std::max(found, std::abs(value));
  }
  return found;
}

/// Those of `reached` from which `target`, an entry or a leaf, is reached; in the order of their numbers.
std::vector<Entry*> paths_to(const void* target, const Reached& reached) {
  std::vector<Entry*> paths;
  std::unordered_set<const void*> leading = {target};
  for (Entry* entry : reached.entries)
    for (int i = 0; i < entry->inputs(); ++i)
      if (leading.count(target_of(entry->edge(i)))) {
        paths.push_back(entry);
        leading.insert(entry);
        break;
      }
  return paths;
}

/// No path: where the parameter's value is used off the tape, or else where the tape of the loss ends.
Explanation cut(const Reached& reached, const Tensor& parameter) {
  const std::uint64_t birth = parameter.body()->array.storage()->birth();
  std::string uses, ends;
  int listed = 0;
  for (const Entry* entry : reached.entries)
    for (int i = 0; i < entry->inputs(); ++i) {
      if (target_of(entry->edge(i))) continue;
      if (entry->edge(i).birth() == birth)
        uses += fmt::format("{}input {} of {}", uses.empty() ? "" : ", ", i, described(*entry));
      if (++listed <= 8) ends += fmt::format("{}input {} of {}", ends.empty() ? "" : ", ", i, described(*entry));
    }
  if (!uses.empty())
    return {
        GradientReason::detached,
        "the parameter's value is read off the tape (after detach(), or recorded before requires_grad_()): " + uses};
  if (ends.empty()) return {GradientReason::not_reached, "the loss doesn't use the parameter"};
  return {GradientReason::not_reached,
          "no path leads from the loss to the parameter; if it should, it was cut (detach(), NoGradGuard, an integer "
          "result) at one of the places where the tape ends: " +
              ends + (listed > 8 ? ", ..." : "")};
}

/// Where the gradient vanished: the deepest result on the paths whose gradient isn't zero.
std::string vanishing(const std::vector<Entry*>& paths, const Tensors& gradients) {
  for (std::size_t i = 0; i < paths.size(); ++i)
    if (gradients[i + 1].defined() && largest(gradients[i + 1]) != 0)
      return "it vanishes in " + described(*paths[i]) + ": the gradient of its result isn't zero, what it passes on is";
  return "it is zero from the loss on";
}

/// A tensor at an entry's place.
Tensor result_of(Entry* entry) {
  return attach(zeros(entry->shape(), entry->dtype()), core::Shared<Entry>::share(entry));
}

}  // namespace

std::string_view name_of(GradientReason reason) {
  constexpr std::string_view names[] = {"no tape", "not required", "detached", "not reached",
                                        "freed",   "zero",         "nonzero"};
  return names[static_cast<int>(reason)];
}

std::string Explanation::to_string() const { return fmt::format("{}: {}", name_of(reason), text); }

Explanation explain(const Tensor& loss, const Tensor& parameter) {
  using Reason = GradientReason;
  if (!parameter.requires_grad())
    return {
        Reason::not_required,
        is_floating(parameter.dtype())
            ? "the parameter doesn't require a gradient; call requires_grad_() on it before the loss is computed"
            : fmt::format("the parameter is {}: only float32 and float64 tensors have gradients", parameter.dtype())};
  if (!loss.requires_grad())
    return {Reason::no_tape,
            "the loss is not on the tape: it depends on no tensor that requires a gradient, or was computed under "
            "NoGradGuard, or detached"};
  const Reached reached = reached_from(loss);
  const Edge place(*parameter.body());
  const bool is_loss = target_of(Edge(*loss.body())) == target_of(place);
  const std::vector<Entry*> paths = paths_to(target_of(place), reached);
  if (paths.empty() && !is_loss) return cut(reached, parameter);
  for (const Entry* entry : paths)
    if (entry->consumed())
      return {Reason::freed, described(*entry) +
                                 " was swept and freed; explain before backward(), or keep the graph with "
                                 "backward({.retain_graph = true})"};
  Tensors wanted = {parameter};
  for (Entry* entry : paths) wanted.push_back(result_of(entry));
  const Tensor seed = ones_like(loss.detach());
  const Tensors gradients = grad({loss}, wanted, {.grad_outputs = {seed}, .retain_graph = true, .allow_unused = true});
  const double size = gradients[0].defined() ? largest(gradients[0]) : 0;
  if (size != 0)
    return {Reason::nonzero, fmt::format("the gradient reaches the parameter; its largest magnitude is {:.6g}", size)};
  return {Reason::zero, "the gradient reaches the parameter, and is exactly zero; " + vanishing(paths, gradients)};
}

}  // namespace tapegrad::autograd
