#include <limits>

#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/operation.hpp>
#include <tapegrad/autograd/reductions.hpp>

namespace tapegrad {

Tensor rms_norm(const Tensor& x, const Tensor& weight, std::optional<double> eps, int normalized_rank) {
  autograd::check_floating("rms_norm", x);
  const int first = x.rank() - normalized_rank;
  if (normalized_rank < 1 || first < 0)
    throw ShapeError("rms_norm: the normalised rank must be in [1, rank of x]; got " + std::to_string(normalized_rank) +
                     " for shape " + x.shape().to_string());
  if (weight.defined() && weight.shape() != x.shape().sub(first, x.rank()))
    throw ShapeError("rms_norm: the weight must have the shape of the last dimensions of x, " +
                     x.shape().sub(first, x.rank()).to_string() + "; got " + weight.shape().to_string());
  Shape axes;
  for (int axis = first; axis < x.rank(); ++axis) axes.push_back(axis);
  const double nearest =
      x.dtype() == float32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  const Tensor normalized = x * rsqrt(mean(square(x), Axes(axes), true) + eps.value_or(nearest));
  return weight.defined() ? normalized * weight : normalized;
}

}  // namespace tapegrad
