// Matrix products: cut into blocks of rows or columns and batches by us, each block one single-threaded BLAS call
// through xtensor-blas's cxxblas interface. Blocks depend on shapes alone, so every number of threads gives the same
// bits.
#include <algorithm>
#include <bit>
#include <limits>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/batches.hpp>
#include <tapegrad/core/kernels/blas.hpp>
#include <tapegrad/core/kernels/cxxblas.hpp>
#include <tapegrad/core/kernels/kernels.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core::kernels {
namespace {

/// A matrix as BLAS wants it: row-major with a leading dimension, or the transpose of such a one.
struct Operand {
  Array array;  // keeps a copy alive, if one was needed
  bool transposed = false;
  std::int64_t leading = 1;
};

/// The last two dimensions of `array` as an operand; copied only if neither of them has unit stride.
Operand operand(const Array& array) {
  const int rank = array.rank();
  const std::int64_t rows = array.size(rank - 2), columns = array.size(rank - 1);
  const std::int64_t row_stride = array.strides()[rank - 2], column_stride = array.strides()[rank - 1];
  const auto fits = [](std::int64_t unit, std::int64_t unit_size, std::int64_t other, std::int64_t other_size) {
    return (unit == 1 || unit_size == 1) && (other >= unit_size || other_size == 1);
  };
  if (fits(column_stride, columns, row_stride, rows))
    return {array, false, rows == 1 ? std::max<std::int64_t>(1, columns) : row_stride};
  if (fits(row_stride, rows, column_stride, columns))
    return {array, true, columns == 1 ? std::max<std::int64_t>(1, rows) : column_stride};
  return {array.copy(), false, std::max<std::int64_t>(1, columns)};
}

double flops_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}
/// A power of two, so that the pieces are even for two and four threads; each has work enough to be worth handing over.
std::int64_t pieces(double flops, std::int64_t most) {
  constexpr double kFlopsPerPiece = 6e6;
  const auto wanted = std::clamp<std::int64_t>(static_cast<std::int64_t>(flops / kFlopsPerPiece), 1, 16);
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(most, 1, wanted))));
}

/// How one product is cut: by rows, or by columns if there are more of them.
struct Blocks {
  bool by_rows;
  std::int64_t count;
  std::int64_t size;
};
/// BLAS packs the other operand anew for each block: more than four blocks only if they stay long.
Blocks cut(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kShort = 64, kLong = 192, kMultiple = 32;
  const std::int64_t length = std::max(m, n);
  const std::int64_t count =
      pieces(flops_of(m, n, k), std::max(length / kLong, std::min<std::int64_t>(4, length / kShort)));
  if (count == 1) return {m >= n, 1, length};
  const std::int64_t size = ((length + count - 1) / count + kMultiple - 1) / kMultiple * kMultiple;
  return {m >= n, (length + size - 1) / size, size};
}

template <class T>
struct Product {
  Operand a, b;
  std::int64_t m, n, k;
  T alpha, beta;

  /// Block number `block` of one matrix of the batch; pointers to its operands and its result (leading dimension ldc).
  void run(const Blocks& blocks, std::int64_t block, const T* pa, const T* pb, T* pc, std::int64_t ldc) const {
    const std::int64_t first = block * blocks.size;
    const std::int64_t length = std::min(blocks.size, (blocks.by_rows ? m : n) - first);
    if (blocks.by_rows) {
      pa += first * (a.transposed ? 1 : a.leading);
      pc += first * ldc;
    } else {
      pb += first * (b.transposed ? b.leading : 1);
      pc += first;
    }
    const auto i = [](std::int64_t value) { return static_cast<BlasIndex>(value); };
    if (m == 1) {  // gemm would copy all of b first
      const std::int64_t rows = b.transposed ? length : k, columns = b.transposed ? k : length;
      if (beta == T(0)) std::fill_n(pc, length, T(0));  // some BLAS multiply what stands there
      cxxblas::gemv<BlasIndex>(cxxblas::RowMajor, b.transposed ? cxxblas::NoTrans : cxxblas::Trans, i(rows), i(columns),
                               alpha, pb, i(b.leading), pa, i(a.transposed ? a.leading : 1), beta, pc, BlasIndex{1});
      return;
    }
    cxxblas::gemm<BlasIndex>(cxxblas::RowMajor, a.transposed ? cxxblas::Trans : cxxblas::NoTrans,
                             b.transposed ? cxxblas::Trans : cxxblas::NoTrans, i(blocks.by_rows ? length : m),
                             i(blocks.by_rows ? n : length), i(k), alpha, pa, i(a.leading), pb, i(b.leading), beta, pc,
                             i(ldc));
  }
};

Array expanded_batch(const Array& array, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(array.size(array.rank() - 2));
  shape.push_back(array.size(array.rank() - 1));
  return array.shape() == shape ? array : array.expanded(shape);
}

template <class T>
void multiply(const Array& out, const Operand& a, const Operand& b, const Shape& batch, double alpha, double beta) {
  const int rank = out.rank();
  const std::int64_t m = out.size(rank - 2), n = out.size(rank - 1), k = a.array.size(a.array.rank() - 1);
  const Product<T> product{a, b, m, n, k, static_cast<T>(alpha), static_cast<T>(beta)};
  const Strides sa = a.array.strides(), sb = b.array.strides(), sc = out.strides();
  const std::int64_t ldc = m == 1 ? std::max<std::int64_t>(1, n) : sc[rank - 2];
  const Blocks blocks = cut(m, n, k);
  const std::int64_t matrices = batch.numel();
  const std::int64_t tasks =
      blocks.count > 1 ? matrices : pieces(flops_of(m, n, k) * static_cast<double>(matrices), matrices);
  const std::int64_t together = (matrices + tasks - 1) / tasks;
  parallel_ranges(matrices * blocks.count, together, [&](std::int64_t begin, std::int64_t end) {
    const SingleThreadedBlas single;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t matrix = i / blocks.count;
      product.run(blocks, i % blocks.count, a.array.data<T>() + batch_offset(matrix, batch, sa),
                  b.array.data<T>() + batch_offset(matrix, batch, sb), out.data<T>() + batch_offset(matrix, batch, sc),
                  ldc);
    }
  });
}

constexpr std::int64_t kMostCounted = std::numeric_limits<BlasIndex>::max();
void check_sizes(std::int64_t m, std::int64_t k, std::int64_t n) {
  if (std::max({m, k, n}) > kMostCounted)
    throw ShapeError("matmul: BLAS counts rows and columns up to " + std::to_string(kMostCounted) + "; got " +
                     Shape{m, k}.to_string() + " times " + Shape{k, n}.to_string() + "; multiply it in parts");
}

}  // namespace

Array matmul(const Array& a, const Array& b, double alpha) {
  const Shape batch = broadcast_shapes("matmul", a.shape().sub(0, a.rank() - 2), b.shape().sub(0, b.rank() - 2));
  const std::int64_t m = a.size(a.rank() - 2), k = a.size(a.rank() - 1), n = b.size(b.rank() - 1);
  if (b.rank() == 2 && a.rank() > 2) {  // one matrix for the whole batch: a single tall product
    const std::int64_t rows = a.numel() / std::max<std::int64_t>(1, k);
    if (const auto tall = a.reshaped_view({rows, k}); tall && k > 0 && rows <= kMostCounted) {
      Shape shape = batch;
      shape.push_back(m);
      shape.push_back(n);
      return matmul(*tall, b, alpha).reshaped(shape);
    }
  }
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  if (shape.numel() > 0) check_sizes(m, k, n);
  Array out(shape, a.dtype());
  if (out.numel() == 0) return out;
  if (k == 0) {
    fill(out, 0.0);
    return out;
  }
  const Operand left = operand(expanded_batch(a, batch)), right = operand(expanded_batch(b, batch));
  dispatch_floating("matmul", a.dtype(),
                    [&](auto type) { multiply<typename decltype(type)::type>(out, left, right, batch, alpha, 0.0); });
  return out;
}

void matmul_into(const Array& out, const Array& a, const Array& b, bool accumulate) {
  if (out.numel() == 0) return;
  check_sizes(out.size(0), a.size(1), out.size(1));
  if (a.size(1) == 0) {
    if (!accumulate) fill(out, 0.0);
    return;
  }
  dispatch_floating("matmul", a.dtype(), [&](auto type) {
    multiply<typename decltype(type)::type>(out, operand(a), operand(b), {}, 1.0, accumulate ? 1.0 : 0.0);
  });
}

}  // namespace tapegrad::core::kernels
