// fmt::print("{}", schedule).
#pragma once
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/optim/schedule.hpp>

template <std::derived_from<tapegrad::optim::Schedule> S>
struct fmt::formatter<S> : tapegrad::ToStringFormatter {};
