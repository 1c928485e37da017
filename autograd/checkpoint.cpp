#include <tapegrad/autograd/checkpoint.hpp>

#include <unordered_set>

#include <tapegrad/autograd/sweep.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/random.hpp>

namespace tapegrad::autograd {
namespace {

/// Leaves and older results that the entries behind `output`, recorded after entry `since`, read: in the order of a
/// walk, each once.
std::vector<Edge> outside_of(const Edge& output, std::uint64_t since) {
  std::vector<Edge> outside;
  std::vector<const Entry*> inside;
  std::unordered_set<const void*> seen;
  const auto visit = [&](const Edge& edge) {
    Entry* entry = edge.entry();
    if ((!entry && !edge.leaf()) || !seen.insert(entry ? static_cast<void*>(entry) : edge.leaf()).second) return;
    if (entry && entry->number() > since)
      inside.push_back(entry);
    else
      outside.push_back(edge);
  };
  visit(output);
  for (std::size_t i = 0; i < inside.size(); ++i)
    for (int k = 0; k < inside[i]->inputs(); ++k) visit(inside[i]->edge(k));
  return outside;
}

Tensor called(const std::function<Tensor(const Tensors&)>& function, const Tensors& inputs) {
  const Tensor output = function(inputs);
  if (!output.defined()) throw Error("checkpoint: the function must return a tensor; got an undefined one");
  return output;
}

/// Which values the inputs have, those that want no gradient included.
std::vector<Edge> values_of(const Tensors& inputs) {
  std::vector<Edge> values;
  for (const Tensor& input : inputs)
    if (input.defined()) values.emplace_back(*input.body());
  return values;
}

}  // namespace

Tensor checkpoint(std::function<Tensor(const Tensors&)> function, const Tensors& inputs, SourceLocation where) {
  const UserLine line(where);
  check_function("checkpoint", function);
  if (!grad_enabled()) return called(function, inputs);
  const RandomState random = random_state();
  const std::uint64_t since = last_number();
  const Tensor output = called(function, inputs);
  const std::vector<Edge> outside = outside_of(Edge(*output.body()), since);
  Tensors places;
  for (const Edge& edge : outside) places.push_back(tensor_at(edge));
  auto backward = [=, function = std::move(function), values = values_of(inputs)](const Tensor& g) {
    const bool changed = values_of(inputs) != values;
    const std::uint64_t before = last_number();
    const Tensor again = [&] {
      const RandomStateGuard same_numbers(random);
      const GradModeGuard recorded(true);
      return called(function, inputs);
    }();
    if (changed || outside_of(Edge(*again.body()), before) != outside)
      throw GradError(
          "checkpoint: the function must read the same tensors, unchanged, when the sweep calls it again; it read "
          "others, or values that were written in between; call backward() before the change");
    sweep_on(again, g, before);
    return Tensors(outside.size());
  };
  return record("checkpoint", output.array(), places, std::move(backward));
}

}  // namespace tapegrad::autograd
