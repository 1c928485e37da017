// Where a token stands, told to attention, which sees a set: added to the embeddings (learned, sinusoidal), turned into
// queries and keys (rotary), or added to the scores (ALiBi). `offset` is the position of the first row of x: what a
// cache of earlier keys holds already.
#pragma once
#include <tapegrad/nn/module.hpp>

namespace tapegrad::nn {

class PositionTable;

/// weight [max_length, width], drawn from N(0, 0.02^2) as in GPT-2; row p is added to the token at position p.
class LearnedPositions : public Module {
 public:
  LearnedPositions(std::int64_t max_length, std::int64_t width);

  /// x [..., L, width] -> x + weight[offset ... offset + L - 1]. ValueError beyond max_length.
  Tensor forward(const Operand& x, std::int64_t offset = 0) const;
  Tensor operator()(const Operand& x, std::int64_t offset = 0) const { return forward(x, offset); }
  std::int64_t max_length() const { return weight_.size(0); }
  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_;
};

/// [length, width]: sin(p / 10000^(2i / width)) in column 2i and the cosine in column 2i + 1, for the positions p from
/// `offset` on (Vaswani et al., 2017). ValueError unless the width is even.
Tensor sinusoidal_positions(std::int64_t length, std::int64_t width, std::int64_t offset = 0, Dtype dtype = float32);

/// Adds sinusoidal_positions; no parameters, any length.
class SinusoidalPositions : public Module {
 public:
  explicit SinusoidalPositions(std::int64_t width);

  /// x [..., L, width] -> the same shape.
  Tensor forward(const Operand& x, std::int64_t offset = 0) const;
  Tensor operator()(const Operand& x, std::int64_t offset = 0) const { return forward(x, offset); }

 private:
  std::int64_t width_;
  std::shared_ptr<PositionTable> table_;
};

/// Rotary position embedding (Su et al., 2021) of queries and keys, so that their products depend on i - j alone.
/// Element i of the first half of x and element i of the second half are a point of the plane (the pairing of GPT-NeoX
/// and LLaMA; the paper pairs neighbours 2i and 2i + 1, which is the same up to a permutation of the columns of the
/// projections), turned by the angle p base^(-2i / width) at position p.
class RotaryEmbedding {
 public:
  /// ValueError unless the width, that of one head, is even and base is positive.
  explicit RotaryEmbedding(std::int64_t width, double base = 10000.0);

  /// x [..., L, width], positions offset ... offset + L - 1 -> the same shape. Sines and cosines are kept between
  /// calls; calls from several threads need no lock.
  Tensor rotate(const Operand& x, std::int64_t offset = 0) const;
  std::int64_t width() const { return width_; }

 private:
  std::int64_t width_;
  std::shared_ptr<PositionTable> cosines_, sines_;
};

/// Attention with linear biases (Press et al., 2022), [heads]: 2^(-8 i / heads) for i = 1 ... heads; if that is no
/// power of two, those of the power p below, then the first, third, ... of those of 2p.
Tensor alibi_slopes(std::int64_t heads, Dtype dtype = float32);
/// [heads, L, S], to be passed as `bias`: minus the head's slope times the distance of query i and key j, |i + S - L -
/// j|; aligned bottom right like is_causal.
Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t keys, Dtype dtype = float32);
/// [heads, 1, S]: slope times (j - (S - 1)). In causal attention the weights are the same, since all scores of a row
/// differ from those with alibi_bias by one number, and there are L times fewer elements.
Tensor alibi_causal_bias(std::int64_t heads, std::int64_t keys, Dtype dtype = float32);

}  // namespace tapegrad::nn
