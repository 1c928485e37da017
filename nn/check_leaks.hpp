// Proofs that nothing reaches an output which must not: the future, and the other items of a batch.
#pragma once
#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

/// The outcome of a check: true if nothing leaked.
struct [[nodiscard]] LeakReport {
  explicit operator bool() const { return !leaked; }
  /// "check_causal: the output of position 1 depends on the input of position 3: it moved by up to 0.25; ...".
  std::string to_string() const;

  std::string check;
  /// How many positions (or items) were changed, one after the other; a check ends with the first that leaks.
  std::int64_t changed_in_turn = 0;
  bool leaked = false;
  /// Of the first leak: the position (or item) of the input that was changed, the first one of the output that moved
  /// and must not, and by how much it moved at most.
  std::int64_t changed = -1;
  std::int64_t moved = -1;
  double size = 0;
};

using TensorFunction = std::function<Tensor(const Tensor&)>;

/// Whether the output at each position depends on the inputs at that position and before it alone. `model` takes [N, T,
/// ...] (int64 ids, or floating) to [N, T, ...]. Each position is changed in turn, in all items at once: an id to
/// another of the ids given, of which there must be two, a number to a random one. No earlier output may move by more
/// than `tolerance`. The model is called off the tape, each time with the same random numbers, and the random state is
/// left as it was. A Module is called in evaluation mode and left in its own mode; a model inside another callable is
/// called in the mode that it is in.
LeakReport check_causal(const TensorFunction& model, const Tensor& inputs, double tolerance = 0);

/// Whether each item of the output depends on its own item of the input alone. `model` takes [N, ...] to [N, ...] with
/// N > 1; all else is as for check_causal.
LeakReport check_batch_independence(const TensorFunction& model, const Tensor& inputs, double tolerance = 0);

template <class M>
concept AnyModule = std::derived_from<std::remove_cvref_t<M>, Module>;

/// A module's operator() or, without one, its forward.
template <AnyModule M>
TensorFunction function_of(M& model) {
  if constexpr (std::invocable<M&, const Tensor&>)
    return [&model](const Tensor& x) { return model(x); };
  else
    return [&model](const Tensor& x) { return model.forward(x); };
}

template <AnyModule M>
LeakReport check_causal(M&& model, const Tensor& inputs, double tolerance = 0) {
  const EvalGuard eval(model);
  return check_causal(function_of(model), inputs, tolerance);
}
template <AnyModule M>
LeakReport check_batch_independence(M&& model, const Tensor& inputs, double tolerance = 0) {
  const EvalGuard eval(model);
  return check_batch_independence(function_of(model), inputs, tolerance);
}

}  // namespace tapegrad::nn
