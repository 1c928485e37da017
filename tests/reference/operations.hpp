// What the reference files call operations: by name, from inputs and arguments.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "reference/cases.hpp"

namespace tapegrad::reference {

using Operation = std::function<Tensor(const Tensors&, const Json&)>;
using Operations = std::map<std::string, Operation>;

/// Those of operations_shapes.json.
void add_shapes_and_indices(Operations& all);

}  // namespace tapegrad::reference
