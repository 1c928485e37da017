#include <tapegrad/nn/embedding.hpp>

#include <fmt/format.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/nn/init.hpp>

namespace tapegrad::nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, const EmbeddingOptions& options)
    : Module("Embedding"), padding_idx_(options.padding_idx) {
  check_sizes({{"num_embeddings", num_embeddings}, {"embedding_dim", embedding_dim}});
  std::string arguments = fmt::format("num_embeddings={}, embedding_dim={}", num_embeddings, embedding_dim);
  Tensor weight = init::normal_(empty({num_embeddings, embedding_dim}));
  if (padding_idx_) {
    require<IndexError>(*padding_idx_ >= -num_embeddings && *padding_idx_ < num_embeddings,
                        "Embedding: padding_idx must be in [-{0}, {0}); got {1}", num_embeddings, *padding_idx_);
    if (*padding_idx_ < 0) *padding_idx_ += num_embeddings;
    init::zeros_(weight.select(0, *padding_idx_));
    arguments += fmt::format(", padding_idx={}", *padding_idx_);
  }
  describe(arguments);
  weight_ = register_parameter("weight", weight);
}

Tensor Embedding::forward(const Operand& indices) const {
  const auto here = scope();
  return finished(embedding(weight_, indices, padding_idx_));
}

}  // namespace tapegrad::nn
