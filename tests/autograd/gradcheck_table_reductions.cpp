#include "gradcheck_table.hpp"

namespace tapegrad::table {
namespace {

using OverAxes = Tensor (*)(const Operand&, const Axes&, bool);
using AlongAxis = Tensor (*)(const Operand&, std::int64_t, bool);

void add_over_axes(Rows& rows, const char* operation, OverAxes f, Repeats repeats) {
  const std::pair<const char*, Axes> choices[] = {
      {"axis 1 of", Axes(1)}, {"all axes of", Axes()}, {"axes 0, -1 of", Axes{0, -1}}, {"axis 0 of", Axes(0)}};
  for (const auto& [what, axes] : choices)
    for (const bool keepdim : {false, true}) {
      const Apply apply = [f, axes = axes, keepdim](const Tensors& in) { return f(in[0], axes, keepdim); };
      add_shapes(rows, operation, what, apply, {{2, 3}}, signed_values, repeats);
      add_shapes(rows, operation, what, apply, {{2, 3, 2}}, signed_values, repeats);
      add_shapes(rows, operation, what, apply, {{1, 1}}, signed_values, repeats);
      if (repeats == Repeats::allowed) add_shapes(rows, operation, what, apply, {{3, 0}}, signed_values, repeats);
    }
  const Apply all = [f](const Tensors& in) { return f(in[0], Axes(), false); };
  add_shapes(rows, operation, "all of", all, {{}}, signed_values, repeats);
  add_shapes(rows, operation, "all of", all, {{19}}, signed_values, repeats);
}

/// For what gathers the elements that it chooses.
void add_along_axis(Rows& rows, AlongAxis f, Repeats repeats) {
  const std::size_t before = rows.size();
  for (const std::int64_t axis : {-1, 0})
    for (const bool keepdim : {false, true}) {
      const Apply apply = [=](const Tensors& in) { return f(in[0], axis, keepdim); };
      const std::string what = "axis " + std::to_string(axis) + " of";
      for (const Shape& shape : {Shape{2, 3}, Shape{1, 1}, Shape{2, 3, 2}, Shape{19}, Shape{4}})
        add_shapes(rows, "gather", what, apply, {shape}, signed_values, repeats);
    }
  const Apply last = [f](const Tensors& in) { return f(in[0], -1, false); };
  rows.push_back({"gather", "[0, 3]", last, {signed_values({0, 3})}});
  for (std::size_t i = before; i < rows.size(); ++i)
    if (rows[i].apply(rows[i].inputs).rank() < rows[i].inputs[0].rank()) rows[i].through = {"reshape"};
}

}  // namespace

void add_reduction_rows(Rows& rows) {
  add_over_axes(rows, "sum", sum, Repeats::allowed);
  const std::size_t before = rows.size();
  add_over_axes(rows, "divide", mean, Repeats::allowed);
  for (std::size_t i = before; i < rows.size(); ++i) rows[i].through = {"sum"};
  add_over_axes(rows, "amax", amax, Repeats::kinks);
  add_over_axes(rows, "amin", amin, Repeats::kinks);
  add_along_axis(rows, max, Repeats::kinks);
  add_along_axis(rows, min, Repeats::kinks);
  add_over_axes(rows, "logsumexp", logsumexp, Repeats::allowed);
  for (const std::int64_t axis : {0, -1})
    for (const Shape& shape : {Shape{4}, Shape{2, 3}, Shape{3, 0}, Shape{2, 3, 2}, Shape{19, 2}})
      add_shapes(rows, "cumsum", "axis " + std::to_string(axis) + " of",
                 [axis](const Tensors& in) { return cumsum(in[0], axis); }, {shape});
  for (const Shape& to : {Shape{3}, Shape{1, 3}, Shape{2, 1}, Shape{}, Shape{1, 1}})
    add_shapes(rows, "sum", to.to_string() + " from", [to](const Tensors& in) { return sum_to(in[0], to); }, {{2, 3}});
  add_shapes(rows, "sum", "[2, 1] from", [](const Tensors& in) { return sum_to(in[0], {2, 1}); }, {{4, 2, 3}});
  add_unary(
      rows, "norm", [](const Tensor& x) { return norm(x); }, signed_values);
  add_over_axes(
      rows, "norm", [](const Operand& x, const Axes& axes, bool keep) { return norm(x, 2, axes, keep); },
      Repeats::allowed);
}

}  // namespace tapegrad::table
