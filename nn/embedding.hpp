// A table of vectors, looked up by index.
#pragma once
#include <optional>

#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

struct EmbeddingOptions {
  /// This row is zero at the start and gets no gradient, so that it stays zero in training; a negative index counts
  /// from the end. Loading a state dict does overwrite it.
  std::optional<std::int64_t> padding_idx = {};
};

/// weight [num_embeddings, embedding_dim], drawn from the standard normal distribution.
class Embedding : public Module {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options = {});

  /// int64 indices of any shape -> indices.shape + [embedding_dim].
  Tensor forward(const Operand& indices) const;
  Tensor operator()(const Operand& indices) const { return forward(indices); }

  std::int64_t num_embeddings() const { return weight_.size(0); }
  std::int64_t embedding_dim() const { return weight_.size(1); }
  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_;
  std::optional<std::int64_t> padding_idx_;
};

}  // namespace tapegrad::nn
