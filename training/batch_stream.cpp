#include <tapegrad/training/batch_stream.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/grad.hpp>
#include <tapegrad/core/random.hpp>
#include <tapegrad/core/require.hpp>
#include <tapegrad/optim/reading.hpp>

namespace tapegrad::data {

RandomState stream_state(std::uint64_t seed, std::uint64_t stream) {
  constexpr std::uint64_t kOther = 0x9E3779B97F4A7C15;
  return {seed ^ kOther, stream << 32};
}

/// Makes batches ahead, from number `from` on, until one fails. It has a `make` of its own: whatever that is doing
/// while the process forks, the child begins with one that nobody has called.
class BatchStream::Worker {
 public:
  Worker(const BatchStream& stream, std::int64_t from)
      : stream_(stream), make_(stream.make_), thread_([this, from] { work(from); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Not so in the child of a fork: the thread stayed with the parent.
  bool is_here() const { return process_ == getpid(); }

  Tensors next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ahead_.empty(); });
    Made one = std::move(ahead_.front());
    ahead_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (one.error) std::rethrow_exception(one.error);
    return std::move(one.batch);
  }

 private:
  struct Made {
    Tensors batch;
    std::exception_ptr error;
  };

  void work(std::int64_t number) {
    for (bool failed = false; !failed; ++number) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || ahead_.size() < stream_.prefetch_; });
      if (stopping_) return;
      lock.unlock();
      Made one;
      try {
        one.batch = stream_.made(make_, number);
      } catch (...) {
        one.error = std::current_exception();
        failed = true;
      }
      lock.lock();
      ahead_.push_back(std::move(one));
      lock.unlock();
      changed_.notify_all();
    }
  }

  const BatchStream& stream_;
  const Make make_;
  const pid_t process_ = getpid();
  std::mutex mutex_;  // of the queue and the flag
  std::condition_variable changed_;
  std::deque<Made> ahead_;
  bool stopping_ = false;
  std::thread thread_;  // the last: it uses the others
};

BatchStream::BatchStream(const char* name, std::vector<Setting> settings, std::uint64_t seed, std::int64_t prefetch,
                         Make make)
    : name_(name),
      settings_(std::move(settings)),
      seed_(seed),
      prefetch_(static_cast<std::size_t>(prefetch)),
      make_(std::move(make)) {
  settings_.push_back({"seed", static_cast<std::int64_t>(seed)});
  require(prefetch >= 0, "{}: prefetch must be the number of batches to make ahead; got {}", name, prefetch);
}

Tensors BatchStream::made(const Make& make, std::int64_t number) const {
  const NoGradGuard no_grad;
  const RandomStateGuard random(stream_state(seed_, static_cast<std::uint64_t>(number)));
  return make(number);
}

BatchStream::~BatchStream() = default;

/// A thread that isn't here can't be joined, nor what it may be holding be destroyed: the child keeps that memory.
void BatchStream::End::operator()(Worker* worker) const noexcept {
  if (worker->is_here()) delete worker;
}

Tensors BatchStream::next() {
  if (worker_ && !worker_->is_here()) worker_.reset();
  if (prefetch_ > 0 && !worker_) worker_.reset(new Worker(*this, position_));
  try {
    Tensors batch = worker_ ? worker_->next() : made(make_, position_);
    ++position_;
    return batch;
  } catch (...) {
    worker_.reset();  // it has ended; the next call starts one at the same batch
    throw;
  }
}

void BatchStream::seek(std::int64_t position) {
  require(position >= 0, "{}: the position must be at least 0; got {}", name_, position);
  worker_.reset();
  position_ = position;
}

StateDict BatchStream::state_dict() const {
  std::vector<std::int64_t> values;
  for (const Setting& setting : settings_) values.push_back(setting.value);
  return {{"position", tensor(position_)},
          {"settings", from_vector(values, {static_cast<std::int64_t>(values.size())})}};
}

void BatchStream::load_state_dict(const StateDict& entries) {
  optim::Reading reading(name_, entries);
  const StateDict own = state_dict();
  const Tensor* position = reading.get("position", own.at("position"));
  const std::int64_t number = position ? position->to_vector<std::int64_t>()[0] : 0;
  if (number < 0) reading.wrong("position", fmt::format("at least 0, got {}", number));
  if (const Tensor* settings = reading.get("settings", own.at("settings"))) {
    const std::vector<std::int64_t> values = settings->to_vector<std::int64_t>();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != settings_[i].value)
        reading.wrong(settings_[i].name, fmt::format("{}, got {}", settings_[i].value, values[i]));
  }
  reading.finish();
  seek(number);
}

}  // namespace tapegrad::data
