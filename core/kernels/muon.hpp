// Muon's update of one matrix. Private to the library.
#pragma once
#include <cstdint>

#include <tapegrad/core/array.hpp>

namespace tapegrad::core::kernels {

struct MuonStep {
  double lr, momentum, weight_decay, eps;
  bool nesterov;
  std::int64_t iterations;
  /// Of the direction, beside lr.
  double scale;
};
/// All are contiguous matrices of one shape and floating dtype; parameter and buffer are updated in place.
void muon_step(const Array& parameter, const Array& gradient, const Array& buffer, const MuonStep& step);

}  // namespace tapegrad::core::kernels
