// Rows of a table by index, and the sum of rows back into a table. Private to the library.
#pragma once
#include <cstdint>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

/// indices.shape + [width]: rows of `table` [rows, width]. Where the index is `blank` (-1: nowhere) the row is zero.
Array gather_rows(const Array& table, const Array& indices, std::int64_t blank);
/// [rows, width]: each row of g, of shape indices.shape + [width], added to the row that its index names, except
/// `blank`.
Array scatter_rows(const Array& g, const Array& indices, std::int64_t rows, std::int64_t blank);

}  // namespace tapegrad::core::kernels
