// fmt::print("{}", x) for anything derived from Module, for masks and for reports.
#pragma once
#include <concepts>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/nn/check_leaks.hpp>
#include <tapegrad/nn/masks.hpp>

template <std::derived_from<tapegrad::nn::Module> M>
struct fmt::formatter<M> : tapegrad::ToStringFormatter {};
template <>
struct fmt::formatter<tapegrad::nn::LeakReport> : tapegrad::ToStringFormatter {};
template <>
struct fmt::formatter<tapegrad::nn::Mask> : tapegrad::ToStringFormatter {};
