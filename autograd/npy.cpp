// The format, by hand: xtensor's reader believes the header's sizes before it looks at the file, mistakes header
// lengths from 128 to 255, and wants the keys in one order.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include <tapegrad/autograd/npy.hpp>
#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/safetensors_dtypes.hpp>

namespace tapegrad {
namespace {

static_assert(std::endian::native == std::endian::little, "the files that are read and written are little-endian");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kLongestHeader = 1 << 16;

/// NumPy's names of element types, and those that safetensors files have for them.
constexpr std::pair<std::string_view, std::string_view> kDtypes[] = {
    {"<f2", "F16"}, {"<f4", "F32"}, {"<f8", "F64"}, {"|i1", "I8"},  {"<i2", "I16"}, {"<i4", "I32"},
    {"<i8", "I64"}, {"|u1", "U8"},  {"<u2", "U16"}, {"<u4", "U32"}, {"|b1", "BOOL"}};

struct Header {
  const core::StoredDtype* dtype;
  bool fortran_order;
  Shape shape;
};

/// Reads the header, a Python dictionary such as {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  HeaderParser(const std::string& where, std::string_view text) : where_(where), text_(text) {}

  Header parse() {
    const core::StoredDtype* dtype = nullptr;
    std::optional<bool> fortran_order;
    std::optional<Shape> shape;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !dtype)
        dtype = parse_dtype();
      else if (key == "fortran_order" && !fortran_order)
        fortran_order = parse_bool();
      else if (key == "shape" && !shape)
        shape = parse_shape();
      else
        fail("the keys must be descr, fortran_order and shape, each once");
      if (!take(',') && next() != '}') fail("expected ',' or '}'");
    }
    if (next() != '\0') fail("expected nothing after '}'");
    if (!dtype || !fortran_order || !shape) fail("descr, fortran_order and shape must all be there");
    return {dtype, *fortran_order, *shape};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(
        fmt::format("{}{} in the header, at byte {} of it; the file is damaged or no .npy file", where_, what, at_));
  }
  /// The next character that is no space; 0 at the end.
  char next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (c != next()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("expected '{}'", c));
  }
  bool take_word(std::string_view word) {
    next();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::string_view quoted() {
    expect('\'');
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) fail("expected a closing quote");
    const std::string_view content = text_.substr(at_, end - at_);
    at_ = end + 1;
    return content;
  }
  const core::StoredDtype* parse_dtype() {
    if (next() != '\'') fail("the elements must be plain numbers, not records,");
    const std::string_view descr = quoted();
    for (const auto& [name, stored] : kDtypes)
      if (name == descr) return core::find_stored_dtype(stored);
    std::string shown(descr.substr(0, 20));  // of a file that isn't trusted: no control characters into a message
    for (char& c : shown) c = c >= ' ' && c <= '~' ? c : '?';
    throw FileError(
        fmt::format("{}the elements must be <f2, <f4, <f8, |i1, <i2, <i4, <i8, |u1, <u2, <u4 or |b1; got {}; convert "
                    "them in NumPy with "
                    "astype()",
                    where_, shown));
  }
  bool parse_bool() {
    if (take_word("True")) return true;
    if (!take_word("False")) fail("expected True or False");
    return false;
  }
  Shape parse_shape() {
    Shape shape;
    expect('(');
    while (!take(')')) {
      if (shape.rank() == Shape::kMaxRank) fail(fmt::format("at most {} dimensions are supported", Shape::kMaxRank));
      if (next() < '0' || next() > '9') fail("expected a size");
      std::int64_t size = 0;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, text_[at_] - '0', &size))
          fail("a size must fit into 64 bits");
      shape.push_back(size);
      if (!take(',') && next() != ')') fail("expected ',' or ')'");
    }
    return shape;
  }

  const std::string& where_;
  std::string_view text_;
  std::size_t at_ = 0;
};

/// How many bytes the elements take; nothing if it is more than `limit`.
std::optional<std::int64_t> bytes_of(const Header& header, std::int64_t limit) {
  if (std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end()) return 0;
  std::int64_t bytes = header.dtype->bytes;
  for (std::int64_t size : header.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > limit) return {};
  return bytes;
}

}  // namespace

void save_npy(const std::string& path, const Tensor& tensor) {
  autograd::check_defined("save_npy", tensor);
  const core::Array array = tensor.array().contiguous();
  std::string shape;
  for (std::int64_t size : array.shape()) shape += std::to_string(size) + ", ";
  const auto* row = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                 [&](const auto& row) { return row.second == core::stored_name(array.dtype()); });
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", row->first,
                  array.rank() > 1 ? shape.substr(0, shape.size() - 2) : shape.substr(0, shape.find(' ')));
  const std::size_t prefix = kMagic.size() + 4, used = prefix + text.size() + 1;
  text.append((kAlignment - used % kAlignment) % kAlignment, ' ').push_back('\n');
  std::string head(kMagic);
  for (const std::size_t byte : {std::size_t{1}, std::size_t{0}, text.size() % 256, text.size() / 256})
    head.push_back(static_cast<char>(byte));
  head += text;
  const auto bytes = static_cast<std::size_t>(array.numel() * size_of(array.dtype()));
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(head)),
                                               {reinterpret_cast<const std::byte*>(array.data<char>()), bytes}};
  core::write_file_atomically("save_npy", path, pieces);
}

Tensor load_npy(const std::string& path) {
  const std::string where = fmt::format("load_npy: '{}': ", path);
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);
  std::ifstream file(path, std::ios::binary);
  if (!is_file || !file)
    throw FileError(fmt::format("{}must be a readable file; got {}", where,
                                error     ? error.message()
                                : is_file ? std::strerror(errno)
                                          : "a folder or a device"));
  std::int64_t left = static_cast<std::int64_t>(file.seekg(0, std::ios::end).tellg());
  file.seekg(0);
  const auto read = [&](void* to, std::int64_t bytes, const char* what) {
    if (left < bytes || !file.read(static_cast<char*>(to), bytes))
      throw FileError(fmt::format("{}the file ends within {}; it is damaged or no .npy file", where, what));
    left -= bytes;
  };

  unsigned char start[8], length[4] = {};
  read(start, 8, "the first 8 bytes");
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0 || start[6] < 1 || start[6] > 3)
    throw FileError(where + "must begin with \\x93NUMPY and a version from 1 to 3; it is damaged or no .npy file");
  read(length, start[6] == 1 ? 2 : 4, "the header's length");
  const std::int64_t header_bytes = length[0] + length[1] * 256 + length[2] * 65536 + length[3] * std::int64_t{1 << 24};
  if (header_bytes > kLongestHeader)
    throw FileError(
        fmt::format("{}the header must have at most {} bytes; got {}", where, kLongestHeader, header_bytes));
  std::string text(static_cast<std::size_t>(header_bytes), '\0');
  read(text.data(), header_bytes, "the header");

  const Header header = HeaderParser(where, text).parse();
  const std::optional<std::int64_t> bytes = bytes_of(header, left);
  if (bytes != left)
    throw FileError(
        fmt::format("{}the elements of shape {} and dtype {} must fill the file after its header exactly; "
                    "got {} bytes",
                    where, header.shape.to_string(), header.dtype->name, left));
  Shape stored = header.shape, reversed;
  for (int axis = stored.rank() - 1; axis >= 0; --axis) reversed.push_back(axis);
  if (header.fortran_order) std::reverse(stored.begin(), stored.end());
  const core::Array array(stored, header.dtype->loaded);
  if (header.dtype->widen) {
    std::byte piece[1 << 16];
    for (std::int64_t done = 0, size; done < *bytes; done += size) {
      size = std::min<std::int64_t>(*bytes - done, sizeof piece);
      read(piece, size, "the elements");
      header.dtype->widen(piece, static_cast<std::size_t>(size / header.dtype->bytes),
                          array.storage()->data() + done / header.dtype->bytes * size_of(array.dtype()));
    }
  } else {
    read(array.data<char>(), *bytes, "the elements");
  }
  if (array.dtype() == boolean &&
      std::any_of(array.data<char>(), array.data<char>() + *bytes, [](char c) { return c != 0 && c != 1; }))
    throw FileError(where + "booleans must be 0 or 1; got another byte; the file is damaged");
  return Tensor(header.fortran_order ? array.permuted(reversed).contiguous() : array);
}

}  // namespace tapegrad
