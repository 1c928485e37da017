// fmt::print("{}", x) for anything derived from Module, and for reports.
#pragma once
#include <concepts>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/nn/check_leaks.hpp>

template <std::derived_from<tapegrad::nn::Module> M>
struct fmt::formatter<M> : tapegrad::ToStringFormatter {};
template <>
struct fmt::formatter<tapegrad::nn::LeakReport> : tapegrad::ToStringFormatter {};
