#include <tapegrad/training/data_loader.hpp>

#include <algorithm>
#include <numeric>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::data {
namespace {

/// The rows of an epoch in the order of its batches.
Rows order_of(std::int64_t rows, const LoaderOptions& options, std::int64_t epoch) {
  if (options.shuffle) {
    constexpr std::uint64_t kOrders = 0xD1B54A32D192ED03;  // other numbers than those of the batches
    const RandomStateGuard random(stream_state(options.seed ^ kOrders, static_cast<std::uint64_t>(epoch)));
    return randperm(rows).to_vector<std::int64_t>();
  }
  Rows order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::int64_t checked_batches(std::int64_t rows, const LoaderOptions& options) {
  const std::int64_t size = std::max<std::int64_t>(options.batch_size, 1);
  const std::int64_t batches = options.drop_last ? rows / size : rows / size + (rows % size != 0);
  require(options.batch_size >= 1 && batches >= 1,
          "DataLoader: batch_size must be at least 1, and the rows enough for one batch; got batch_size {}, {} rows{}",
          options.batch_size, rows, options.drop_last ? " and drop_last" : "");
  return batches;
}

}  // namespace

DataLoader::DataLoader(std::int64_t rows, Get get, const LoaderOptions& options)
    : batches_(checked_batches(rows, options)),
      stream_("DataLoader",
              {{"rows", rows},
               {"batch_size", options.batch_size},
               {"shuffle", options.shuffle},
               {"drop_last", options.drop_last}},
              options.seed, options.prefetch,
              [=, get = std::move(get), batches = batches_, known = std::int64_t{-1},
               order = Rows()](std::int64_t number) mutable {
                const std::int64_t epoch = number / batches, begin = number % batches * options.batch_size;
                if (epoch != known) order = order_of(rows, options, epoch);
                known = epoch;
                return get(Rows(order.begin() + begin, order.begin() + std::min(begin + options.batch_size, rows)));
              }) {}

}  // namespace tapegrad::data
