// Checkpoints: all that a training run needs to go on as if it had never stopped, in one safetensors file.
#pragma once
#include <functional>
#include <map>
#include <string>

#include <tapegrad/autograd/serialization.hpp>
#include <tapegrad/nn/module.hpp>
#include <tapegrad/optim/optimizer.hpp>

namespace tapegrad {

/// A handle to any object with state_dict() and load_state_dict(entries): a schedule, an Ema, a loader of data, a
/// second optimizer. The object must outlive it, and change nothing when it throws.
class Stateful {
 public:
  Stateful() = default;
  template <class T>
  requires requires(T& object, const StateDict& entries) {
    StateDict(object.state_dict());
    object.load_state_dict(entries);
  }
  Stateful(T& object)
      : save([&object] { return StateDict(object.state_dict()); }),
        load([&object](const StateDict& entries) { object.load_state_dict(entries); }) {}

  explicit operator bool() const { return static_cast<bool>(save); }

  std::function<StateDict()> save;
  std::function<void(const StateDict&)> load;
};

/// What a checkpoint holds beside the module, the optimizer and this thread's random state.
struct CheckpointParts {
  Stateful schedule = {};
  Stateful ema = {};
  /// Where the data has come to.
  Stateful data = {};
  /// Whatever else remembers, by a name without dots.
  std::map<std::string, Stateful> more = {};
};

/// What a program notes down with it, for itself.
struct CheckpointNote {
  std::int64_t step = 0;
  Metadata metadata = {};
  StateDict extra = {};
};

/// Replaces the file at `path` once the new one is whole and on the disk; a process that is killed, or a disk that is
/// full, leaves the old one. Gradients and the training flag are not saved: save between a step and the next sweep, and
/// outside of an Ema's averaged().
/// FileError if it can't be written, ValueError for a name that is taken.
void save_checkpoint(const std::string& path, const nn::Module& module, const optim::Optimizer& optimizer,
                     const CheckpointParts& parts = {}, const CheckpointNote& note = {});

/// Puts everything back, and the random state of this thread: what is computed from here on has the same bits as if
/// the run had not been stopped. FileError that names the file, and what is missing, unexpected or doesn't fit; then
/// nothing is changed. The parts must be those that were saved.
CheckpointNote load_checkpoint(const std::string& path, nn::Module& module, optim::Optimizer& optimizer,
                               const CheckpointParts& parts = {});

/// The note alone, as when a program must know its settings before it can build the module.
CheckpointNote read_checkpoint_note(const std::string& path);

}  // namespace tapegrad
