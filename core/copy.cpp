// copy_into: the loops are ordered for the destination and merged, and what is left is one of three kinds of work: runs
// of adjacent elements, transpositions in tiles, and strided rows (which also convert between dtypes).
#include <algorithm>
#include <cstring>
#include <limits>

#include <tapegrad/core/array.hpp>
#include <tapegrad/core/dispatch.hpp>
#include <tapegrad/core/kernels/transpose.hpp>
#include <tapegrad/core/threads.hpp>

namespace tapegrad::core {
namespace {

constexpr std::int64_t kGrain = std::int64_t{1} << 15;  // elements that one task copies
constexpr std::int64_t kLine = 64;                      // bytes of a cache line

struct Loop {
  std::int64_t size, to, from;
};

/// Nested loops, the innermost last.
struct Loops {
  Loop loops[Shape::kMaxRank];
  int depth = 0;

  const Loop& inner() const { return loops[depth - 1]; }
  /// How often the loops around the `innermost` last ones run.
  std::int64_t rows(int innermost) const {
    std::int64_t product = 1;
    for (int i = 0; i < depth - innermost; ++i) product *= loops[i].size;
    return product;
  }
};

/// The loops over `to` and `from` (of one shape) in the order of `to`'s memory, adjacent ones merged.
Loops plan(const Array& to, const Array& from) {
  Loop loops[Shape::kMaxRank];
  int depth = 0;
  for (int i = 0; i < to.rank(); ++i)
    if (to.size(i) != 1) loops[depth++] = {to.size(i), to.strides()[i], from.strides()[i]};
  std::stable_sort(loops, loops + depth, [](const Loop& a, const Loop& b) { return std::abs(a.to) > std::abs(b.to); });
  Loops merged;
  for (int i = 0; i < depth; ++i) {
    const Loop& next = loops[i];
    if (merged.depth > 0) {
      Loop& last = merged.loops[merged.depth - 1];
      if (last.to == next.to * next.size && last.from == next.from * next.size) {
        last = {last.size * next.size, next.to, next.from};
        continue;
      }
    }
    merged.loops[merged.depth++] = next;
  }
  if (merged.depth == 0) merged.loops[merged.depth++] = {1, 1, 1};
  return merged;
}

/// visit(offset in `to`, offset in `from`) for rows [begin, end) of the loops around the `innermost` last ones.
template <class Visit>
void walk(const Loops& plan, int innermost, std::int64_t begin, std::int64_t end, Visit&& visit) {
  const int depth = plan.depth - innermost;
  std::int64_t index[Shape::kMaxRank];
  std::int64_t to = 0, from = 0, rest = begin;
  for (int i = depth - 1; i >= 0; --i) {
    index[i] = rest % plan.loops[i].size;
    rest /= plan.loops[i].size;
    to += index[i] * plan.loops[i].to;
    from += index[i] * plan.loops[i].from;
  }
  for (std::int64_t row = begin; row < end; ++row) {
    visit(to, from);
    for (int i = depth - 1; i >= 0; --i) {
      const Loop& loop = plan.loops[i];
      to += loop.to;
      from += loop.from;
      if (++index[i] < loop.size) break;
      index[i] = 0;
      to -= loop.size * loop.to;
      from -= loop.size * loop.from;
    }
  }
}

/// row(offset in `to`, offset in `from`, elements) over everything, in parallel; a single long row is cut too.
template <class Row>
void for_each_row(const Loops& plan, Row&& row) {
  const Loop& inner = plan.inner();
  if (plan.depth == 1) {
    parallel_ranges(inner.size, kGrain, [&](std::int64_t begin, std::int64_t end) {
      row(begin * inner.to, begin * inner.from, end - begin);
    });
    return;
  }
  parallel_ranges(plan.rows(1), std::max<std::int64_t>(1, kGrain / inner.size),
                  [&](std::int64_t begin, std::int64_t end) {
                    walk(plan, 1, begin, end, [&](std::int64_t to, std::int64_t from) { row(to, from, inner.size); });
                  });
}

/// Floats truncate; what int64 can't hold becomes its nearest bound, and NaN the lower one.
template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, std::int64_t> && std::is_floating_point_v<From>) {
    if (value >= From{0x1p63}) return std::numeric_limits<To>::max();
    return value >= From{-0x1p63} ? static_cast<To>(value) : std::numeric_limits<To>::min();
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
void convert_rows(const Loops& plan, To* to, const From* from) {
  const std::int64_t to_step = plan.inner().to, from_step = plan.inner().from;
  for_each_row(plan, [=](std::int64_t to_offset, std::int64_t from_offset, std::int64_t size) {
    To* out = to + to_offset;
    const From* in = from + from_offset;
    if (to_step == 1 && from_step == 1) {
      for (std::int64_t i = 0; i < size; ++i) out[i] = convert<To>(in[i]);
    } else if (to_step == 1 && from_step == 0) {
      std::fill_n(out, size, convert<To>(*in));
    } else {
      for (std::int64_t i = 0; i < size; ++i) out[i * to_step] = convert<To>(in[i * from_step]);
    }
  });
}

/// The loop along which `from` is adjacent while the innermost loop is so in `to`, or -1.
int transposing_loop(const Loops& plan) {
  if (plan.inner().to != 1 || plan.inner().from == 0) return -1;
  for (int i = 0; i < plan.depth - 1; ++i)
    if (plan.loops[i].from == 1) return i;
  return -1;
}

template <class T>
void transpose(Loops plan, int loop, T* to, const T* from) {
  std::rotate(plan.loops + loop, plan.loops + loop + 1, plan.loops + plan.depth - 1);
  const Loop rows = plan.loops[plan.depth - 2], columns = plan.inner();
  const std::int64_t height = kLine / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t strips = (rows.size + height - 1) / height;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (height * columns.size));
  parallel_ranges(plan.rows(2) * strips, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item % strips * height, matrix = item / strips;
      walk(plan, 2, matrix, matrix + 1, [&](std::int64_t to_offset, std::int64_t from_offset) {
        kernels::transpose_strip(to + to_offset + first * rows.to, rows.to, from + from_offset + first, columns.from,
                                 std::min(height, rows.size - first), columns.size);
      });
    }
  });
}

/// Elements of one size, whatever they mean.
template <class T>
void move(const Loops& plan, T* to, const T* from) {
  if (plan.inner().to == 1 && plan.inner().from == 1) {
    for_each_row(plan, [=](std::int64_t to_offset, std::int64_t from_offset, std::int64_t size) {
      std::memcpy(to + to_offset, from + from_offset, static_cast<std::size_t>(size) * sizeof(T));
    });
  } else if (const int loop = transposing_loop(plan); loop >= 0) {
    transpose(plan, loop, to, from);
  } else {
    convert_rows(plan, to, from);
  }
}

}  // namespace

void copy_into(const Array& to, const Array& from) {
  if (to.numel() == 0) return;
  const Loops loops = plan(to, from.expanded(to.shape()));
  dispatch(to.dtype(), [&]<class To>(Type<To>) {
    dispatch(from.dtype(), [&]<class From>(Type<From>) {
      if constexpr (std::is_same_v<To, From>)
        move(loops, to.data<To>(), from.data<From>());
      else
        convert_rows(loops, to.data<To>(), from.data<From>());
    });
  });
}

}  // namespace tapegrad::core
