#include "gradcheck_table.hpp"

namespace tapegrad::table {
namespace {

Tensor as_it_is(const Tensor& x) { return x; }
Tensor transposed(const Tensor& x) { return x.rank() < 2 ? x : transpose(contiguous(transpose(x, 0, -1)), 0, -1); }
Tensor sliced(const Tensor& x) {
  return x.rank() < 1 ? x : slice(stack({x, x}, -1).flatten(-2, -1), -1, 0, 2 * x.size(-1), 2);
}
/// Only the first element along the first axis, repeated: the values change, the shape doesn't.
Tensor expanded(const Tensor& x) { return x.rank() < 1 || x.size(0) < 2 ? x : expand(slice(x, 0, 0, 1), x.shape()); }

}  // namespace

const std::vector<Layout> layouts = {
    {"", as_it_is}, {", transposed", transposed}, {", sliced", sliced}, {", expanded", expanded}};

Tensor positive_values(const Shape& shape) { return rand(shape, float64) + 0.3; }
Tensor signed_values(const Shape& shape) {
  return where(lt(rand(shape, float64), 0.5), positive_values(shape), -positive_values(shape));
}

void add_shapes(Rows& rows, const std::string& operation, const std::string& what, const Apply& apply,
                const std::vector<Shape>& shapes, Draw draw, Repeats repeats) {
  std::string detail = what;
  Tensors inputs;
  for (const Shape& shape : shapes) {
    inputs.push_back(draw(shape));
    detail += (inputs.size() > 1 ? " and " : detail.empty() ? "" : " ") + shape.to_string();
  }
  for (const Layout& layout : layouts) {
    if (repeats == Repeats::kinks && layout.arrange == expanded) continue;
    Tensors arranged;
    bool changed = layout.arrange == as_it_is;
    for (const Tensor& input : inputs) {
      arranged.push_back(layout.arrange(input));
      changed = changed || arranged.back().body() != input.body();
    }
    if (changed) rows.push_back({operation, detail + layout.name, apply, arranged});
  }
}

void add_unary(Rows& rows, const std::string& operation, const std::function<Tensor(const Operand&)>& f, Draw draw) {
  const Apply apply = [f](const Tensors& in) { return f(in[0]); };
  for (const Shape& shape : {Shape{2, 3}, Shape{}, Shape{1}, Shape{19}, Shape{2, 0}, Shape{3, 1, 2}})
    add_shapes(rows, operation, "", apply, {shape}, draw);
}

void add_binary(Rows& rows, const std::string& operation,
                const std::function<Tensor(const Operand&, const Operand&)>& f, Draw first, Draw second) {
  const Apply apply = [f](const Tensors& in) { return f(in[0], in[1]); };
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{2, 3}, {2, 3}}, {{}, {}},         {{2, 3}, {3}},    {{2, 1}, {1, 3}},
      {{2, 3}, {}},     {{}, {2, 2}},     {{1}, {2, 3}},    {{2, 1, 3}, {4, 1}},
      {{19}, {19}},     {{2, 0}, {2, 0}}, {{2, 0}, {1, 1}}, {{3, 17}, {17}}};
  for (const auto& [a, b] : pairs) {
    const Tensors drawn{first(a), second(b)};
    for (const Layout& layout : layouts) {
      const Tensors inputs{layout.arrange(drawn[0]), layout.arrange(drawn[1])};
      if (layout.arrange != as_it_is && inputs[0].body() == drawn[0].body() && inputs[1].body() == drawn[1].body())
        continue;
      rows.push_back({operation, a.to_string() + " and " + b.to_string() + layout.name, apply, inputs});
    }
  }
  const Tensor both = positive_values({2, 3});
  rows.push_back({operation, "one tensor used twice", [f](const Tensors& in) { return f(in[0], in[0]); }, {both}});
  rows.push_back({operation, "one tensor given twice", apply, {both, both}});
  rows.back().twice = operation != "maximum" && operation != "minimum";
}

Apply transpose_of(const Apply& read, const Shape& shape) {
  return [=](const Tensors& in) {
    Tensor zero = zeros(shape, float64).requires_grad_();
    autograd::GradOptions options{.grad_outputs = {in[0]}, .create_graph = autograd::grad_enabled()};
    autograd::set_grad_enabled(true);
    const Tensor result = read({zero});
    autograd::set_grad_enabled(options.create_graph);
    return autograd::grad({result}, {zero}, options)[0];
  };
}

const Rows& all_rows() {
  static const Rows rows = [] {
    manual_seed(4);
    Rows made;
    add_elementwise_rows(made);
    add_reduction_rows(made);
    add_shaping_rows(made);
    add_neural_rows(made);
    return made;
  }();
  return rows;
}

}  // namespace tapegrad::table
