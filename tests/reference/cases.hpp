// Reading the reference files that make_references.py writes.
#pragma once
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <tapegrad/tapegrad.hpp>
#include <vector>

namespace tapegrad::reference {

using Json = nlohmann::json;

inline Json read(const std::string& name) {
  std::ifstream file(std::string(TAPEGRAD_REFERENCE_DIR) + "/" + name);
  return Json::parse(file);
}

inline double number(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const std::string text = value.get<std::string>();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? infinity : text == "-inf" ? -infinity : std::numeric_limits<double>::quiet_NaN();
}

/// Of the kind that it is written as.
inline Scalar scalar_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  return value.is_number_integer() ? Scalar(value.get<std::int64_t>()) : Scalar(value.get<double>());
}

inline Shape shape_of(const Json& list) { return Shape(list.get<std::vector<std::int64_t>>()); }

inline Dtype dtype_of(const std::string& name) {
  return name == "float64" ? float64 : name == "float32" ? float32 : name == "int64" ? int64 : boolean;
}

/// An undefined tensor for null.
inline Tensor tensor_of(const Json& value) {
  if (value.is_null()) return {};
  std::vector<double> numbers;
  for (const Json& x : value["values"]) numbers.push_back(number(x));
  return from_vector(numbers, shape_of(value["shape"]), dtype_of(value["dtype"]));
}

inline Tensors tensors_of(const Json& list) {
  Tensors tensors;
  for (const Json& value : list) tensors.push_back(tensor_of(value));
  return tensors;
}

/// The largest difference between what is expected and what is there, relative to 1 + |expected|; NaN equals NaN, and
/// infinity for another shape or dtype.
inline double distance(const Tensor& expected, const Tensor& got) {
  if (!got.defined() || expected.shape() != got.shape() || expected.dtype() != got.dtype())
    return std::numeric_limits<double>::infinity();
  const std::vector<double> a = expected.to_vector<double>(), b = got.to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
    const double difference = std::abs(a[i] - b[i]) / (1 + std::abs(a[i]));
    if (!(difference <= largest))
      largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
  }
  return largest;
}

}  // namespace tapegrad::reference
