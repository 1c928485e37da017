#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/core/kernels/embedding.hpp>

namespace tapegrad {
namespace {

constexpr std::int64_t kNowhere = -1;

void check_arguments(const Tensor& weight, const Tensor& indices) {
  for (const Tensor* x : {&weight, &indices}) autograd::check_defined("embedding", *x);
  if (weight.rank() != 2)
    throw ShapeError("embedding: weight must have shape [rows, width]; got " + weight.shape().to_string());
  if (indices.dtype() != int64)
    throw DtypeError("embedding: indices must be int64; got " + std::string(name_of(indices.dtype())) +
                     "; convert them with .to(tapegrad::int64)");
  const Array values = indices.array().contiguous();
  const std::int64_t rows = weight.size(0);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const std::int64_t index = values.data<std::int64_t>()[i];
    if (index < 0 || index >= rows)
      throw IndexError("embedding: every index must be in [0, " + std::to_string(rows) +
                       "), the rows of the table; got " + std::to_string(index) + " at position " + std::to_string(i) +
                       " of indices of shape " + indices.shape().to_string());
  }
}

/// `padding_index` counted from 0.
std::int64_t padding_row(std::optional<std::int64_t> padding_index, std::int64_t rows) {
  if (!padding_index) return kNowhere;
  if (*padding_index < -rows || *padding_index >= rows)
    throw IndexError("embedding: padding_index must be in [" + std::to_string(-rows) + ", " + std::to_string(rows) +
                     ") for a table of " + std::to_string(rows) + " rows; got " + std::to_string(*padding_index));
  return *padding_index < 0 ? *padding_index + rows : *padding_index;
}

Tensor scatter(const Tensor& g, const Tensor& indices, std::int64_t rows, std::int64_t padding);

/// Rows of `table`; zero where the index is `blank`. No gradient flows to row `padding`.
Tensor gather(const Tensor& table, const Tensor& indices, std::int64_t blank, std::int64_t padding) {
  const auto value = [&] { return kernels::gather_rows(table.array(), indices.array(), blank); };
  return record("embedding", value, {table, indices}, [indices, rows = table.size(0), padding](const Tensor& g) {
    return Tensors{scatter(g, indices, rows, padding), {}};
  });
}

/// The gradient of the table: linear in g, and its own gradient is a lookup that leaves `padding` out.
Tensor scatter(const Tensor& g, const Tensor& indices, std::int64_t rows, std::int64_t padding) {
  const auto value = [&] { return kernels::scatter_rows(g.array(), indices.array(), rows, padding); };
  return record("embedding_backward", value, {g, indices}, [indices, padding](const Tensor& gg) {
    return Tensors{gather(gg, indices, padding, padding), {}};
  });
}

}  // namespace

Tensor embedding(const Operand& weight, const Operand& indices, std::optional<std::int64_t> padding_index) {
  const autograd::Span span("embedding");
  check_arguments(weight, indices);
  return gather(weight, indices, kNowhere, padding_row(padding_index, weight.size(0)));
}

}  // namespace tapegrad
