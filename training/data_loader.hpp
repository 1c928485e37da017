// DataLoader: a dataset as batches, epoch after epoch.
#pragma once
#include <iterator>

#include <tapegrad/training/batch_stream.hpp>
#include <tapegrad/training/dataset.hpp>

namespace tapegrad::data {

struct LoaderOptions {
  std::int64_t batch_size = 1;
  /// Each epoch in another random order, which follows from the seed and the epoch's number.
  bool shuffle = false;
  /// Leave out the last batch of an epoch if it has fewer rows than the others.
  bool drop_last = false;
  std::uint64_t seed = 0;
  /// Batches that a thread of the loader's makes ahead; 0: none, and no thread.
  std::int64_t prefetch = 2;
};

/// `for (const Tensors& batch : loader)` goes through the batches that are left of an epoch: all of them, unless the
/// loader stands in its midst because a loop was left or a state was loaded. The batches are the same for a seed,
/// whatever the number of threads and of batches made ahead. What the dataset throws arrives in the loop. In the
/// child of a fork the loader goes on at the same batch.
class DataLoader {
 public:
  /// Keeps the dataset. ValueError if there is not a single batch, or an option is out of range.
  template <Dataset D>
  DataLoader(D dataset, const LoaderOptions& options) : DataLoader(std::make_shared<D>(std::move(dataset)), options) {}

  /// Batches of an epoch.
  std::int64_t batches() const { return batches_; }
  /// Where it stands: the batch that comes next.
  std::int64_t epoch() const { return stream_.position() / batches_; }
  std::int64_t batch() const { return stream_.position() % batches_; }
  void seek(std::int64_t epoch, std::int64_t batch = 0) { stream_.seek(epoch * batches_ + batch); }
  /// One batch, across the borders of epochs.
  Tensors next() { return stream_.next(); }

  class Iterator {
   public:
    Iterator(DataLoader& loader, std::int64_t left) : loader_(loader), left_(left) { fetch(); }
    const Tensors& operator*() const { return batch_; }
    Iterator& operator++() {
      --left_;
      fetch();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return left_ == 0; }

   private:
    void fetch() { batch_ = left_ > 0 ? loader_.next() : Tensors(); }
    DataLoader& loader_;
    std::int64_t left_;
    Tensors batch_;
  };
  Iterator begin() { return {*this, batches_ - batch()}; }
  std::default_sentinel_t end() const { return {}; }

  /// Its place, for a checkpoint; inside of the loop that is behind the batch in hand.
  StateDict state_dict() const { return stream_.state_dict(); }
  /// ValueError that lists all that is wrong, as another seed or batch size; then nothing is changed.
  void load_state_dict(const StateDict& entries) { stream_.load_state_dict(entries); }

 private:
  using Get = std::function<Tensors(const Rows&)>;
  template <class D>
  DataLoader(const std::shared_ptr<D>& dataset, const LoaderOptions& options)
      : DataLoader(
            dataset->size(), [dataset](const Rows& rows) { return Tensors(dataset->get(rows)); }, options) {}
  DataLoader(std::int64_t rows, Get get, const LoaderOptions& options);

  std::int64_t batches_;
  BatchStream stream_;
};

}  // namespace tapegrad::data
