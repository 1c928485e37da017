#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/core/error.hpp>
#include <tapegrad/core/safetensors.hpp>
#include <tapegrad/core/safetensors_dtypes.hpp>
#include <tapegrad/core/safetensors_header.hpp>

namespace tapegrad::core {
namespace {

static_assert(std::endian::native == std::endian::little, "the format stores little-endian numbers");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the format's reference reader
constexpr const char* kDamaged = "; the file is damaged or no safetensors file";

/// A file open for reading, its size fixed at the start; every failure is a FileError.
class InputFile {
 public:
  explicit InputFile(const std::string& path)
      : where_(fmt::format("load_safetensors: '{}': ", path)),
        descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status {};
    if (descriptor_ < 0) fail(fmt::format("the file must be readable; {}", std::strerror(errno)));
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      fail("it must be a file; got a folder or a device");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() { ::close(descriptor_); }

  std::uint64_t size() const { return size_; }
  const std::string& where() const { return where_; }
  [[noreturn]] void fail(const std::string& text) const { throw FileError(where_ + text); }

  void read(std::uint64_t position, void* to, std::uint64_t bytes) const {
    auto* next = static_cast<std::byte*>(to);
    while (bytes > 0) {
      const ssize_t got = ::pread(descriptor_, next, bytes, static_cast<off_t>(position));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(fmt::format("could not be read; {}", std::strerror(errno)));
      if (got == 0) fail("it was cut short while it was being read; try again");
      next += got;
      position += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::uint64_t>(got);
    }
  }

 private:
  std::string where_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

std::string read_header_text(const InputFile& file) {
  if (file.size() < kLengthBytes)
    file.fail(fmt::format("must begin with 8 bytes of length; it has {} bytes{}", file.size(), kDamaged));
  std::uint64_t length = 0;
  file.read(0, &length, kLengthBytes);
  if (length > kLongestHeader || length > file.size() - kLengthBytes)
    file.fail(fmt::format("the header's length must be at most {} and fit in the file of {} bytes; got {}{}",
                          kLongestHeader, file.size(), length, kDamaged));
  std::string text(length, '\0');
  file.read(kLengthBytes, text.data(), length);
  if (!text.starts_with('{') || text.find('\0') != text.npos)  // the JSON parser would take a zero byte for the end
    file.fail(fmt::format("the header must start with '{{' and have no zero bytes{}", kDamaged));
  return text;
}

/// What an entry says, once it is known to make sense by itself.
struct CheckedEntry {
  const SafetensorsEntry* entry;
  const StoredDtype* stored;
  Shape shape;
  std::uint64_t begin;
  std::uint64_t end;
};

std::optional<std::uint64_t> byte_count(const std::vector<std::uint64_t>& shape, const StoredDtype& dtype) {
  auto bytes = static_cast<std::uint64_t>(dtype.bytes);
  for (std::uint64_t size : shape)
    if (size > INT64_MAX || __builtin_mul_overflow(bytes, size, &bytes)) return {};
  return bytes;
}

CheckedEntry check_entry(const InputFile& file, const SafetensorsEntry& entry, std::uint64_t data_bytes) {
  auto fail = [&](const std::string& text) { file.fail("tensor " + quoted_name(entry.name) + ": " + text); };
  const StoredDtype* stored = find_stored_dtype(entry.dtype);
  if (!stored)
    fail(fmt::format(
        "dtype must be F32, F64, F16, BF16, BOOL, I64, I32, I16, I8, U32, U16 or U8; got {}; convert it with "
        "the tool that wrote it",
        quoted_name(entry.dtype)));
  if (entry.shape.size() > static_cast<std::size_t>(Shape::kMaxRank))
    fail(fmt::format("the rank must be at most {}; got {}", Shape::kMaxRank, entry.shape.size()));
  if (entry.offsets.size() != 2)
    fail(fmt::format("data_offsets must be two numbers; got {}{}", entry.offsets.size(), kDamaged));
  const std::uint64_t begin = entry.offsets[0], end = entry.offsets[1];
  if (begin > end || end > data_bytes)
    fail(fmt::format("data_offsets must be begin <= end <= {}, the bytes of data in the file; got [{}, {}]{}",
                     data_bytes, begin, end, kDamaged));
  const auto bytes = byte_count(entry.shape, *stored);
  if (!bytes || *bytes != end - begin)
    fail(fmt::format("shape [{}] of {} must take as many bytes as data_offsets span; got {} and {}{}",
                     fmt::join(entry.shape, ", "), entry.dtype, bytes ? fmt::to_string(*bytes) : "more than 2^64",
                     end - begin, kDamaged));
  Shape shape;
  for (std::uint64_t size : entry.shape) shape.push_back(static_cast<std::int64_t>(size));
  return {&entry, stored, shape, begin, end};
}

/// Overlaps, holes and unclaimed bytes hide things from one reader that another sees: the ranges must tile the data.
void check_tiling(const InputFile& file, std::vector<CheckedEntry> entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const CheckedEntry& a, const CheckedEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t expected = 0;
  for (const CheckedEntry& entry : entries) {
    if (entry.begin != expected)
      file.fail(
          fmt::format("tensor {}: its data must begin where the one before it ends, at {}; it {} and begins at {}{}",
                      quoted_name(entry.entry->name), expected, entry.begin < expected ? "overlaps" : "leaves a hole",
                      entry.begin, kDamaged));
    expected = entry.end;
  }
  if (expected != data_bytes)
    file.fail(fmt::format("tensors must cover all {} bytes of data; {} bytes at the end belong to none{}", data_bytes,
                          data_bytes - expected, kDamaged));
}

Array read_array(const InputFile& file, const CheckedEntry& checked, std::uint64_t data_start) {
  const StoredDtype& stored = *checked.stored;
  Array array(checked.shape, stored.loaded);
  const std::uint64_t bytes = checked.end - checked.begin, from = data_start + checked.begin;
  std::byte* to = array.storage()->data();
  if (!stored.widen) {
    if (bytes > 0) file.read(from, to, bytes);
  } else {
    std::byte piece[1 << 16];
    for (std::uint64_t done = 0, size; done < bytes; done += size) {
      size = std::min<std::uint64_t>(bytes - done, sizeof piece);
      const auto elements = static_cast<std::size_t>(size) / static_cast<std::size_t>(stored.bytes);
      file.read(from + done, piece, size);
      stored.widen(piece, elements, to);
      to += elements * static_cast<std::size_t>(size_of(stored.loaded));
    }
  }
  if (stored.loaded == Dtype::boolean) {
    const auto* first = reinterpret_cast<const unsigned char*>(array.storage()->data());
    const auto* wrong = std::find_if(first, first + bytes, [](unsigned char value) { return value > 1; });
    if (wrong != first + bytes)
      file.fail(fmt::format("tensor {}: a boolean must be 0 or 1; got {} at element {}{}",
                            quoted_name(checked.entry->name), *wrong, wrong - first, kDamaged));
  }
  return array;
}

void check_names(const std::string& path, const std::vector<NamedArray>& arrays) {
  std::set<std::string> names{"__metadata__"};
  for (const NamedArray& array : arrays)
    if (!names.insert(array.name).second)
      throw ValueError(fmt::format("save_safetensors: '{}': names must differ, from \"__metadata__\" too; got {} twice",
                                   path, quoted_name(array.name)));
}

}  // namespace

SafetensorsContent read_safetensors(const std::string& path) {
  const InputFile file(path);
  const std::string text = read_header_text(file);
  SafetensorsHeader header;
  parse_safetensors_header(file.where(), text, header);
  const std::uint64_t data_start = kLengthBytes + text.size();
  const std::uint64_t data_bytes = file.size() - data_start;
  std::vector<CheckedEntry> checked;
  for (const SafetensorsEntry& entry : header.entries) checked.push_back(check_entry(file, entry, data_bytes));
  check_tiling(file, checked, data_bytes);
  SafetensorsContent content{{}, std::move(header.metadata)};
  for (const CheckedEntry& entry : checked)
    content.arrays.push_back({entry.entry->name, read_array(file, entry, data_start)});
  return content;
}

SafetensorsReport inspect_safetensors(const std::string& path) {
  SafetensorsReport report;
  const auto attempt = [&](const auto& step) {
    try {
      step();
      return true;
    } catch (const FileError& error) {
      report.faults.push_back(error.what());
      return false;
    }
  };
  attempt([&] {
    const InputFile file(path);
    report.file_bytes = file.size();
    const std::string text = read_header_text(file);
    SafetensorsHeader header;
    const bool is_whole = attempt([&] { parse_safetensors_header(file.where(), text, header); });
    report.entries = std::move(header.entries);
    report.metadata = std::move(header.metadata);
    const std::uint64_t data_start = kLengthBytes + text.size();
    const std::uint64_t data_bytes = file.size() - data_start;
    std::vector<CheckedEntry> checked;
    for (const SafetensorsEntry& entry : report.entries)
      attempt([&] { checked.push_back(check_entry(file, entry, data_bytes)); });
    if (!is_whole || checked.size() < report.entries.size()) return;
    check_tiling(file, checked, data_bytes);  // first: ranges that overlap could ask for any amount of reading
    for (const CheckedEntry& entry : checked) attempt([&] { read_array(file, entry, data_start); });
  });
  return report;
}

void write_safetensors(const std::string& path, const std::vector<NamedArray>& arrays, const Metadata& metadata) {
  check_names(path, arrays);
  std::vector<Array> values;
  for (const NamedArray& array : arrays) values.push_back(array.array.contiguous());
  // Wide elements first keeps every tensor aligned for readers that map the file into memory.
  std::vector<std::size_t> order(arrays.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(values[a].dtype()) > size_of(values[b].dtype());
  });
  std::vector<std::span<const std::byte>> pieces(2);
  SafetensorsHeader header{{}, metadata};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Shape& shape = values[i].shape();
    header.entries.push_back(
        {arrays[i].name, std::string(stored_name(values[i].dtype())), {shape.begin(), shape.end()}, {}});
  }
  std::uint64_t position = 0;
  for (std::size_t i : order) {
    const Array& value = values[i];
    const auto bytes = static_cast<std::uint64_t>(value.numel() * size_of(value.dtype()));
    pieces.emplace_back(value.storage()->data() + value.offset() * size_of(value.dtype()), bytes);
    header.entries[i].offsets = {position, position + bytes};
    position += bytes;
  }
  const std::string text = format_safetensors_header(fmt::format("save_safetensors: '{}': ", path), header);
  const std::uint64_t length = text.size();
  if (length > kLongestHeader)
    throw ValueError(fmt::format(
        "save_safetensors: '{}': names and metadata must make a header of at most {} bytes, or no reader would "
        "take it; got {}",
        path, kLongestHeader, length));
  pieces[0] = std::as_bytes(std::span(&length, 1));
  pieces[1] = std::as_bytes(std::span(text));
  write_file_atomically("save_safetensors", path, pieces);
}

}  // namespace tapegrad::core
