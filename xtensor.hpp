// The bridge to xtensor: tensors as xtensor expressions, and expressions as tensors. The only header that needs
// xtensor.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<xtensor/containers/xarray.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/core/xnoalias.hpp>
#include <xtensor/views/xstrided_view.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xstrided_view.hpp>
#endif

#include <tapegrad/autograd/tensor.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad {
namespace xtensor_bridge {

/// The elements that an array can reach, as a container of xtensor's. It shares the array's storage, keeps it alive,
/// and marks its value as changed with each access that could write.
template <class T>
class Elements {
 public:
  using value_type = T;
  using allocator_type = std::allocator<T>;
  using reference = T&;
  using const_reference = const T&;
  using pointer = T*;
  using const_pointer = const T*;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using iterator = T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  Elements() = default;
  explicit Elements(const core::Array& array) : array_(array), first_(array.data<T>()) {
    if (array.numel() == 0) return;
    T* last = first_;
    for (int axis = 0; axis < array.rank(); ++axis) {
      const std::ptrdiff_t reach = (array.size(axis) - 1) * array.strides()[axis];
      (reach < 0 ? first_ : last) += reach;
    }
    size_ = static_cast<std::size_t>(last - first_) + 1;
  }

  /// Where the array's own first element is.
  std::size_t offset() const { return size_ == 0 ? 0 : static_cast<std::size_t>(array_.data<T>() - first_); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Its size is that of the tensor; xtensor asks for the size that is there already.
  void resize(std::size_t size) {
    if (size != size_)
      throw ShapeError("as_xtensor: a view of a tensor can't be resized; got " + std::to_string(size) +
                       " elements for " + std::to_string(size_));
  }

  T& operator[](std::size_t i) { return written()[i]; }
  const T& operator[](std::size_t i) const { return first_[i]; }
  T& front() { return *written(); }
  const T& front() const { return *first_; }
  T& back() { return written()[size_ - 1]; }
  const T& back() const { return first_[size_ - 1]; }
  T* data() { return written(); }
  const T* data() const { return first_; }
  iterator begin() { return written(); }
  iterator end() { return first_ + size_; }
  const_iterator begin() const { return first_; }
  const_iterator end() const { return first_ + size_; }
  const_iterator cbegin() const { return first_; }
  const_iterator cend() const { return first_ + size_; }
  reverse_iterator rbegin() { return reverse_iterator(written() + size_); }
  reverse_iterator rend() { return reverse_iterator(first_); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(cend()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(cbegin()); }
  const_reverse_iterator crbegin() const { return rbegin(); }
  const_reverse_iterator crend() const { return rend(); }

  friend bool operator==(const Elements& a, const Elements& b) { return a.first_ == b.first_ && a.size_ == b.size_; }

 private:
  T* written() {
    array_.storage()->bump_version();
    return first_;
  }

  core::Array array_;
  T* first_ = nullptr;
  std::size_t size_ = 0;
};

/// A view keeps its elements by value, so that reading a constant view is reading constant elements.
template <class Flat>
struct ElementsOf {
  using type = std::decay_t<decltype(std::declval<Flat&>().storage())>;
  template <class Other>
  using rebind_t = ElementsOf<Other>;
  static type get_flat_storage(const Flat& flat) { return flat.storage(); }
  static std::size_t get_offset(const Flat& flat) { return flat.data_offset(); }
  static decltype(auto) get_strides(const Flat& flat) { return flat.strides(); }
};

template <class T>
using Flat = xt::xtensor_adaptor<Elements<T>, 1>;

/// The dtype that keeps elements of type T.
template <class T>
constexpr Dtype stored_dtype() {
  static_assert(
      std::is_same_v<T, bool> || std::is_integral_v<T> || std::is_same_v<T, float> || std::is_same_v<T, double>,
      "from_xtensor: elements must be float, double, bool or integers");
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return int64;
  else
    return dtype_of<T>;
}

}  // namespace xtensor_bridge

/// What as_xtensor returns: any xtensor expression takes it, and it can be assigned to. Its shape is a std::vector:
/// with xtensor 0.24's own small vector, assigning a lazy expression to a view reads an unset shape in C++20.
template <class T>
using XtensorView = xt::xstrided_view<xtensor_bridge::Flat<T>, std::vector<std::size_t>, xt::layout_type::dynamic,
                                      xtensor_bridge::ElementsOf<xtensor_bridge::Flat<T>>>;

/// The tensor's own memory as an xtensor expression, whatever its strides; nothing is copied, and the memory lives as
/// long as the view. T is the element type: bool, std::int64_t, float or double; DtypeError if the tensor has another.
///
/// Writing through the view writes the tensor, and is not recorded. As with every write in place, a sweep that needs
/// the value from before throws GradError instead of giving a wrong gradient. Only accesses that could write count as
/// writing: a view that is const, or stands in an expression, is read. Loops that read should take `const auto`.
template <class T>
XtensorView<T> as_xtensor(const Tensor& tensor) {
  const core::Array& array = tensor.array();
  if (array.dtype() != dtype_of<T>)
    throw DtypeError("as_xtensor: the element type must be that of the tensor; got " +
                     std::string(name_of(dtype_of<T>)) + " for a tensor of " + std::string(name_of(array.dtype())) +
                     "; convert the tensor with .to(), or ask for its own type");
  std::vector<std::size_t> shape(static_cast<std::size_t>(array.rank()));
  std::vector<std::ptrdiff_t> strides(shape.size());
  for (int axis = 0; axis < array.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    shape[i] = static_cast<std::size_t>(array.size(axis));
    strides[i] = array.size(axis) == 1 ? 0 : array.strides()[axis];  // xtensor's own convention
  }
  const xtensor_bridge::Elements<T> elements(array);
  const std::size_t offset = elements.offset();
  xtensor_bridge::Flat<T> flat(elements, std::array<std::size_t, 1>{elements.size()});
  const auto layout = array.is_contiguous() ? xt::layout_type::row_major : xt::layout_type::dynamic;
  return XtensorView<T>(std::move(flat), std::move(shape), std::move(strides), offset, layout);
}

/// A new tensor with the values of any xtensor expression: float32 of float, float64 of double, int64 of integers,
/// boolean of bool. It is not on the tape.
template <class E>
Tensor from_xtensor(const xt::xexpression<E>& expression) {
  const E& values = expression.derived_cast();
  using Value = std::decay_t<typename E::value_type>;
  constexpr Dtype dtype = xtensor_bridge::stored_dtype<Value>();
  using Stored = std::conditional_t<dtype == int64, std::int64_t, Value>;

  Shape shape;
  for (const auto size : values.shape()) shape.push_back(static_cast<std::int64_t>(size));
  core::Array array(shape, dtype);
  const auto count = static_cast<std::size_t>(shape.numel());
  if (count == 0) return Tensor(std::move(array));
  const std::vector<std::size_t> sizes(shape.begin(), shape.end());
  auto target = xt::adapt(array.data<Stored>(), count, xt::no_ownership(), sizes);
  xt::noalias(target) = values;
  return Tensor(std::move(array));
}

}  // namespace tapegrad
