#include <algorithm>

#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/embedding.hpp>
#include <tapegrad/core/kernels/rows.hpp>

namespace tapegrad::core::kernels {

Array gather_rows(const Array& table_any, const Array& indices_any, std::int64_t blank) {
  const Array table = table_any.contiguous(), indices = indices_any.contiguous();
  const std::int64_t width = table.size(1);
  Shape shape = indices.shape();
  shape.push_back(width);
  const Array result(shape, table.dtype());
  dispatch_floating("embedding", table.dtype(), [&]<class T>(Type<T>) {
    for_each_row(indices.numel(), width, [&](std::int64_t i) {
      const std::int64_t index = indices.data<std::int64_t>()[i];
      T* to = result.data<T>() + i * width;
      if (index == blank)
        std::fill_n(to, width, T(0));
      else
        std::copy_n(table.data<T>() + index * width, width, to);
    });
  });
  return result;
}

Array scatter_rows(const Array& g_any, const Array& indices_any, std::int64_t rows, std::int64_t blank) {
  const Array g = g_any.contiguous(), indices = indices_any.contiguous();
  const std::int64_t width = g.shape().back(), count = indices.numel();
  const Array result({rows, width}, g.dtype());
  // Each task takes a block of columns and adds all rows in their order.
  constexpr std::int64_t kColumns = 64;
  const bool small = rows_per_task(width) >= std::max(count, rows);
  dispatch_floating("embedding", g.dtype(), [&]<class T>(Type<T>) {
    parallel_ranges(width, small ? width : kColumns, [&](std::int64_t begin, std::int64_t end) {
      T* to = result.data<T>();
      for (std::int64_t row = 0; row < rows; ++row) std::fill(to + row * width + begin, to + row * width + end, T(0));
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t index = indices.data<std::int64_t>()[i];
        if (index == blank) continue;
        const T* from = g.data<T>() + i * width + begin;
        T* sum = to + index * width + begin;
        for_each_batch<T>(end - begin, [&](std::int64_t j, auto lanes) {
          store(sum + j, load(sum + j, lanes) + load(from + j, lanes), lanes);
        });
      }
    });
  });
  return result;
}

}  // namespace tapegrad::core::kernels
