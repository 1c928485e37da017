// From the run-time dtype to a C++ type: the only place that knows all of them.
#pragma once
#include <string>
#include <utility>

#include <tapegrad/core/dtype.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad::core {

template <class T>
struct Type {
  using type = T;
};

/// Calls f(Type<T>{}) with the element type of `dtype`.
template <class F>
decltype(auto) dispatch(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::boolean: return std::forward<F>(f)(Type<bool>{});
    case Dtype::int64: return std::forward<F>(f)(Type<std::int64_t>{});
    case Dtype::float32: return std::forward<F>(f)(Type<float>{});
    default: return std::forward<F>(f)(Type<double>{});
  }
}

/// The same for kernels that exist for float32 and float64 alone; throws DtypeError in the operation's name otherwise.
template <class F>
decltype(auto) dispatch_floating(const char* operation, Dtype dtype, F&& f) {
  if (dtype == Dtype::float32) return std::forward<F>(f)(Type<float>{});
  if (dtype == Dtype::float64) return std::forward<F>(f)(Type<double>{});
  throw DtypeError(std::string(operation) + ": expected a float32 or float64 tensor; got " +
                   std::string(name_of(dtype)) + "; convert it first with .to(tapegrad::float32)");
}

}  // namespace tapegrad::core
