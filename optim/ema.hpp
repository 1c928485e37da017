// Ema: an exponential moving average of weights, which often evaluates better than the weights themselves.
#pragma once
#include <tapegrad/autograd/state_dict.hpp>

namespace tapegrad::optim {

/// a = p at first; each update a = decay a + (1 - decay) p. ValueError for an empty list or a decay outside [0, 1].
class Ema {
 public:
  explicit Ema(Tensors parameters, double decay = 0.999);
  Ema(Ema&&) = delete;  // and so no copies

  /// After an optimizer's step. ShapeError or DtypeError, with nothing changed, if a parameter has become another, as
  /// after Module::to; Error while a Scope lives.
  void update();
  std::int64_t updates() const { return updates_; }

  /// While it lives, the parameters hold their averages; then their own values again, also when an exception flies.
  /// Steps taken meanwhile are lost.
  class Scope {
   public:
    [[nodiscard]] explicit Scope(Ema& ema);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Scope(Ema& ema, std::vector<core::Array> kept) : ema_(ema), kept_(std::move(kept)) {}

    Ema& ema_;
    std::vector<core::Array> kept_;
  };
  /// `const auto averaged = ema.averaged();`. Error if there is one already.
  [[nodiscard]] Scope averaged() { return Scope(*this); }

  /// "average.0" and so on, which share memory with it, and "updates". Error while a Scope lives: what is saved beside
  /// it would be the averages.
  StateDict state_dict() const;
  /// ValueError that lists all that is missing, unexpected or wrong, and then nothing is changed.
  void load_state_dict(const StateDict& entries);

 private:
  void check_fit(const char* operation) const;
  std::vector<core::Array> copies() const;

  Tensors parameters_;
  std::vector<core::Array> averages_;
  double decay_;
  std::int64_t updates_ = 0;
  bool swapped_ = false;
};

}  // namespace tapegrad::optim
