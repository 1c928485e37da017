// Everything but the xtensor bridge.
#pragma once
#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/format.hpp>
#include <tapegrad/autograd/grad.hpp>
#include <tapegrad/autograd/gradcheck.hpp>
#include <tapegrad/autograd/matrix.hpp>
#include <tapegrad/autograd/neural.hpp>
#include <tapegrad/autograd/reductions.hpp>
#include <tapegrad/autograd/shaping.hpp>
#include <tapegrad/autograd/tape.hpp>
#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/random.hpp>
#include <tapegrad/core/storage.hpp>
#include <tapegrad/core/threads.hpp>
