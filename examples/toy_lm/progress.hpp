// How a run is going: the library's progress line.
#pragma once
#include <tapegrad/training/progress.hpp>

namespace toy_lm {
using tapegrad::Progress;
}
