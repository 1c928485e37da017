#include <tapegrad/autograd/trace.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/autograd/walk.hpp>

namespace tapegrad::autograd {
namespace {

std::int64_t bytes_of(const Shape& shape, Dtype dtype) {
  return shape.numel() * static_cast<std::int64_t>(size_of(dtype));
}

bool shares_memory(const Entry& entry) {
  for (int i = 0; i < entry.inputs(); ++i)
    if (entry.edge(i).birth() == entry.birth()) return true;
  return false;
}

TraceRow row_of(const Entry& entry, int number, const std::unordered_map<const void*, int>& numbers) {
  TraceRow row{number, entry.number(), entry.name(), {}, entry.shape(), entry.dtype(), 0, entry.consumed()};
  for (int i = 0; i < entry.inputs(); ++i) {
    const auto found = numbers.find(target_of(entry.edge(i)));
    row.inputs.push_back(found == numbers.end() ? 0 : found->second);
  }
  if (!shares_memory(entry)) row.bytes = bytes_of(row.shape, row.dtype);
  return row;
}

std::string inputs_of(const TraceRow& row) {
  std::string text;
  for (const int input : row.inputs) text += (text.empty() ? "" : ", ") + (input ? std::to_string(input) : "-");
  return text;
}

}  // namespace

Trace trace(const Tensor& result) {
  autograd::check_defined("trace", result);
  const Reached reached = reached_from(result);
  std::unordered_map<const void*, int> numbers;
  Trace table;
  const auto next = [&] { return static_cast<int>(table.rows.size()) + 1; };
  for (const TensorBody* leaf : reached.leaves) {
    const auto [shape, dtype] = std::pair(leaf->array.shape(), leaf->array.dtype());
    numbers[leaf] = next();
    table.rows.push_back({next(), 0, "leaf", {}, shape, dtype, bytes_of(shape, dtype), false});
  }
  for (const Entry* entry : reached.entries) {
    numbers[entry] = next();
    table.rows.push_back(row_of(*entry, next(), numbers));
  }
  return table;
}

std::int64_t Trace::bytes() const {
  std::int64_t sum = 0;
  for (const TraceRow& row : rows) sum += row.bytes;
  return sum;
}

std::string Trace::to_string() const {
  std::size_t name = 9, inputs = 6, shape = 5;
  for (const TraceRow& row : rows) {
    name = std::max(name, row.operation.size());
    inputs = std::max(inputs, inputs_of(row).size());
    shape = std::max(shape, row.shape.to_string().size());
  }
  std::string text = fmt::format("{:>6}  {:<{}}  {:<{}}  {:<{}}  {:<7}  {:>12}\n", "number", "operation", name,
                                 "inputs", inputs, "shape", shape, "dtype", "bytes");
  for (const TraceRow& row : rows)
    text +=
        fmt::format("{:>6}  {:<{}}  {:<{}}  {:<{}}  {:<7}  {:>12}{}\n", row.number, row.operation, name, inputs_of(row),
                    inputs, row.shape.to_string(), shape, name_of(row.dtype), row.bytes, row.freed ? "  freed" : "");
  return text + fmt::format("{} rows, {} bytes\n", rows.size(), bytes());
}

}  // namespace tapegrad::autograd
