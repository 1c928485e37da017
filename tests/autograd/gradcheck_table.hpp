// The table of all recorded operations: for each, functions of small inputs whose gradients are checked.
#pragma once
#include <functional>
#include <string>
#include <tapegrad/tapegrad.hpp>
#include <vector>

namespace tapegrad::table {

using Apply = std::function<Tensor(const Tensors&)>;

/// One check of one operation. The tape of `apply` holds this operation alone, or those of `through` besides.
struct Row {
  std::string operation;  // the name that it is recorded under
  std::string detail;     // "[2, 3] and [3], sliced"
  Apply apply;
  Tensors inputs;
  double eps = 1e-6;
  std::vector<std::string> through = {};
  bool twice = true;  // false at a tie, where a second derivative doesn't exist
  std::string name() const { return operation + " of " + detail; }
};

using Rows = std::vector<Row>;

/// Every row, grouped by operation.
const Rows& all_rows();

// How inputs are drawn: magnitudes in [0.3, 1.3], far from kinks and poles.
Tensor signed_values(const Shape& shape);
Tensor positive_values(const Shape& shape);

/// An arrangement of the same values in memory.
struct Layout {
  const char* name;
  Tensor (*arrange)(const Tensor&);
};
extern const std::vector<Layout> layouts;

using Draw = Tensor (*)(const Shape&);
/// Rows for shapes from a scalar to empty, in every layout.
void add_unary(Rows& rows, const std::string& operation, const std::function<Tensor(const Operand&)>& f, Draw draw);
/// Rows for pairs that broadcast in every way, in every layout, and for the same tensor twice.
void add_binary(Rows& rows, const std::string& operation,
                const std::function<Tensor(const Operand&, const Operand&)>& f, Draw first, Draw second);
/// Inputs of these shapes, in every layout; without the expanded one where equal elements would be kinks.
enum class Repeats { allowed, kinks };
void add_shapes(Rows& rows, const std::string& operation, const std::string& what, const Apply& apply,
                const std::vector<Shape>& shapes, Draw draw = signed_values, Repeats repeats = Repeats::allowed);

/// The gradient of `read` at zeros of `shape`, given in[0]: for operations that are recorded in recorded sweeps alone.
Apply transpose_of(const Apply& read, const Shape& shape);

void add_elementwise_rows(Rows& rows);
void add_reduction_rows(Rows& rows);
void add_shaping_rows(Rows& rows);
void add_neural_rows(Rows& rows);

}  // namespace tapegrad::table
