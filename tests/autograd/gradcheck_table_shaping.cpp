#include <tapegrad/autograd/placing.hpp>

#include "gradcheck_table.hpp"

namespace tapegrad::table {
namespace {

void add_views(Rows& rows) {
  const auto one = [&rows](const char* operation, const char* what, Tensor (*f)(const Tensor&), const Shape& shape) {
    add_shapes(rows, operation, what, [f](const Tensors& in) { return f(in[0]); }, {shape});
  };
  one("reshape", "[3, 2] from", [](const Tensor& x) { return reshape(x, {3, 2}); }, {2, 3});
  one("reshape", "[4, -1] from", [](const Tensor& x) { return reshape(x, {4, -1}); }, {2, 2, 3});
  one("reshape", "[] from", [](const Tensor& x) { return reshape(x, {}); }, {1, 1});
  one("reshape", "[3, 0] from", [](const Tensor& x) { return reshape(x, {3, 0}); }, {0, 2});
  one("reshape", "flat", [](const Tensor& x) { return flatten(x); }, {2, 3});
  one("permute", "", [](const Tensor& x) { return transpose(x, 0, 1); }, {2, 3});
  one("permute", "", [](const Tensor& x) { return transpose(x, -1, 0); }, {2, 3, 2});
  one("permute", "", [](const Tensor& x) { return transpose(x, 1, 1); }, {2, 0});
  one("permute", "2, 0, 1 of", [](const Tensor& x) { return permute(x, {2, 0, 1}); }, {2, 3, 2});
  one("permute", "none of", [](const Tensor& x) { return permute(x, {}); }, {});
  one("reshape", "1 of", [](const Tensor& x) { return squeeze(x, 1); }, {2, 1, 3});
  one("reshape", "-1 of", [](const Tensor& x) { return squeeze(x, -1); }, {1});
  one("reshape", "-1 of", [](const Tensor& x) { return unsqueeze(x, -1); }, {2, 3});
  one("reshape", "0 of", [](const Tensor& x) { return unsqueeze(x, 0); }, {});
  one("expand", "to [4, 2, 3] of", [](const Tensor& x) { return expand(x, {4, 2, 3}); }, {2, 1});
  one("expand", "to [2, 2] of", [](const Tensor& x) { return expand(x, {2, 2}); }, {});
  one("expand", "to [0, 3] of", [](const Tensor& x) { return expand(x, {0, 3}); }, {1, 3});
  one("slice", "1:4 of", [](const Tensor& x) { return slice(x, 1, 1, 4); }, {2, 5});
  one("slice", "::2 of", [](const Tensor& x) { return slice(x, -1, 0, 5, 2); }, {2, 5});
  one("slice", "nothing of", [](const Tensor& x) { return slice(x, 0, 3, 1); }, {4});
  one("select", "-2 of", [](const Tensor& x) { return select(x, 1, -2); }, {2, 3, 2});
  one("select", "0 of", [](const Tensor& x) { return select(x, 0, 0); }, {1});
  one("put", "::2 of", [](const Tensor& x) { return autograd::put(x, {1, 0, 3, 2}, {2, 6}); }, {2, 3});
  one("put", "1: of", [](const Tensor& x) { return autograd::put(x, {0, 1, 4, 1}, {5}); }, {4});
  one("reshape", "0 of", [](const Tensor& x) { return squeeze(x, 0); }, {1, 0});
  one("diagonal", "0 of", [](const Tensor& x) { return diagonal(x); }, {2, 3});
  one("diagonal", "-1 of 2, 0 of", [](const Tensor& x) { return diagonal(x, -1, 2, 0); }, {2, 2, 3});
  one("diagonal", "5 of", [](const Tensor& x) { return diagonal(x, 5); }, {2, 3});
  const Apply above = [](const Tensors& in) { return diagonal(in[0], 1, -1, 0); };
  add_shapes(rows, "put", "1 of -1, 0 of", transpose_of(above, {3, 2, 2}), {{2, 2}});
  one("put", "-1 of", [](const Tensor& x) { return autograd::put(x, autograd::Diagonal{-1, 0, 1}, {3, 3}); }, {2});
}

void add_copies(Rows& rows) {
  add_unary(
      rows, "clone", [](const Tensor& x) { return clone(x); }, signed_values);
  const Tensor x = signed_values({3, 4});
  const Apply copy = [](const Tensors& in) { return contiguous(in[0]); };
  for (const Layout& layout : layouts)
    if (layout.arrange(x).body() != x.body())
      rows.push_back({"clone", "[3, 4]" + std::string(layout.name), copy, {layout.arrange(x)}});
  const Apply there_and_back = [](const Tensors& in) { return to(to(in[0], float32), float64); };
  for (const Layout& layout : layouts)
    rows.push_back({"to",
                    "[2, 3]" + std::string(layout.name),
                    there_and_back,
                    {layout.arrange(from_vector<double>({1, -0.5, 2, 0.25, -3, 1.5}, {2, 3}, float64))},
                    0.5});
  add_shapes(rows, "flip", "both of", [](const Tensors& in) { return flip(in[0], {0, 1}); }, {{2, 3}});
  add_shapes(rows, "flip", "-1 of", [](const Tensors& in) { return flip(in[0], -1); }, {{2, 0}});
  for (const std::int64_t diagonal : {0, -1, 1}) {
    const std::string what = "diagonal " + std::to_string(diagonal) + " of";
    add_shapes(rows, "tril", what, [=](const Tensors& in) { return tril(in[0], diagonal); }, {{2, 3, 4}});
    add_shapes(rows, "triu", what, [=](const Tensors& in) { return triu(in[0], diagonal); }, {{4, 3}});
  }
}

void add_joins(Rows& rows) {
  add_shapes(rows, "cat", "axis 1 of", [](const Tensors& in) { return cat(in, 1); }, {{2, 3}, {2, 1}, {2, 0}, {2, 2}});
  add_shapes(rows, "cat", "axis -2 of", [](const Tensors& in) { return cat(in, -2); }, {{1, 2}, {3, 2}});
  add_shapes(rows, "cat", "axis 0 of", [](const Tensors& in) { return cat(in); }, {{5}});
  const Tensor x = signed_values({2, 3});
  rows.push_back({"cat", "one tensor used twice", [](const Tensors& in) { return cat({in[0], in[0]}, 1); }, {x}});
  const Tensor mask = tensor({true, false, true});
  add_shapes(rows, "where", "", [=](const Tensors& in) { return masked_fill(in[0], mask, 2.5); }, {{2, 3}});
  add_shapes(rows, "where", "", [=](const Tensors& in) { return masked_fill(in[0], mask, 2.5); }, {{0, 3}});
}

void add_indexing(Rows& rows) {
  const Tensor index = tensor({2, 0, 2, 1});
  const Apply first = [=](const Tensors& in) { return index_select(in[0], 0, index); };
  const Apply last = [=](const Tensors& in) { return index_select(in[0], -1, index); };
  const Apply none = [](const Tensors& in) { return index_select(in[0], 0, zeros({0}, int64)); };
  add_shapes(rows, "index_select", "axis 0 of", first, {{3, 2}});
  add_shapes(rows, "index_select", "axis -1 of", last, {{2, 3}});
  add_shapes(rows, "index_select", "nothing of", none, {{3, 2}});
  add_shapes(rows, "index_add", "axis 0 of", transpose_of(first, {3, 2}), {{4, 2}});
  add_shapes(rows, "index_add", "axis -1 of", transpose_of(last, {2, 3}), {{2, 4}});
  const Tensor places = tensor({{0, 0, 1}, {2, 1, 1}});
  const Apply along = [=](const Tensors& in) { return gather(in[0], 1, places); };
  const Apply down = [=](const Tensors& in) { return gather(in[0], 0, places); };
  add_shapes(rows, "gather", "axis 1 of", along, {{2, 3}});
  add_shapes(rows, "gather", "axis 0 of", down, {{3, 3}});
  add_shapes(rows, "scatter_add", "axis 1 of", transpose_of(along, {2, 3}), {{2, 3}});
  add_shapes(rows, "scatter_add", "axis 0 of", transpose_of(down, {3, 3}), {{2, 3}});
}

}  // namespace

void add_shaping_rows(Rows& rows) {
  add_views(rows);
  add_copies(rows);
  add_joins(rows);
  add_indexing(rows);
}

}  // namespace tapegrad::table
