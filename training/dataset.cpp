#include <tapegrad/training/dataset.hpp>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::data {

TensorDataset::TensorDataset(Tensors tensors) {
  require(!tensors.empty(), "TensorDataset: there must be a tensor; got none");
  for (const Tensor& tensor : tensors) autograd::check_defined("TensorDataset", tensor);
  for (const Tensor& tensor : tensors) {
    require<ShapeError>(tensor.rank() != 0 && tensor.size(0) == tensors[0].size(0),
                        "TensorDataset: all tensors must have the same first size; got {} and {}", tensors[0].shape(),
                        tensor.shape());
    tensors_.push_back(tensor.detach());
  }
}

Tensors TensorDataset::get(const Rows& rows) const {
  const Tensor index = from_vector(rows, {static_cast<std::int64_t>(rows.size())});
  Tensors batch;
  for (const Tensor& tensor : tensors_) batch.push_back(index_select(tensor, 0, index));
  return batch;
}

}  // namespace tapegrad::data
