// The backward sweep's state on this thread. Private to the library.
#pragma once
#include <tapegrad/autograd/tape.hpp>

namespace tapegrad::autograd {

/// The entry whose closure is running on this thread, if any.
const Entry* running_entry();

}  // namespace tapegrad::autograd
