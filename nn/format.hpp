// fmt::print("{}", module) for anything derived from Module.
#pragma once
#include <concepts>

#include <tapegrad/autograd/format.hpp>
#include <tapegrad/nn/module.hpp>

template <std::derived_from<tapegrad::nn::Module> M>
struct fmt::formatter<M> : tapegrad::ToStringFormatter {};
