// Cross entropy of rows of logits against classes. Private to the library.
#pragma once
#include <cstdint>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

struct CrossEntropy {
  Array losses;  // [rows]
  Array stats;   // [rows, 2]: the largest logit of each row, and the logarithm of sum(exp(logit - largest))
};
/// -log softmax(logits)[target] for each row; 0 where the target is `ignored`.
CrossEntropy cross_entropy(const Array& logits, const Array& targets, std::int64_t ignored);
/// (softmax(logits) - onehot(targets)) g, row by row; 0 in ignored rows.
Array cross_entropy_backward(const Array& g, const Array& logits, const Array& targets, const Array& stats,
                             std::int64_t ignored);

}  // namespace tapegrad::core::kernels
