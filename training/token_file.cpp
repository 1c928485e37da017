#include <tapegrad/training/token_file.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the file holds little-endian numbers");

struct Header {
  char mark[8] = {'t', 'g', 't', 'o', 'k', 'e', 'n', 's'};
  std::uint32_t version = 1;
  std::uint32_t width = 0;  // bytes of a token
  std::uint64_t vocabulary = 0;
};
static_assert(sizeof(Header) == 24);
constexpr std::size_t kFrame = sizeof(Header) + sizeof(std::uint64_t);  // and the number of tokens at the end

std::uint32_t width_for(std::uint64_t vocabulary) { return vocabulary <= 1 << 16 ? 2 : 4; }

template <class T>
void widen(const std::byte* from, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = reinterpret_cast<const T*>(from)[i];
}

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(T));
}

}  // namespace

/// Where tokens lie: 2 or 4 bytes each in a mapped file, 8 in memory.
struct Tokens::Source {
  std::string path;
  std::vector<std::int64_t> kept;
  void* mapping = nullptr;
  std::size_t mapped_bytes = 0;
  Header header{.width = 8, .vocabulary = 0};

  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() {
    if (mapping) ::munmap(mapping, mapped_bytes);
  }
  const std::byte* token(std::int64_t i) const {
    const std::byte* first = mapping ? static_cast<const std::byte*>(mapping) + sizeof(Header)
                                     : reinterpret_cast<const std::byte*>(kept.data());
    return first + i * header.width;
  }
  [[noreturn]] void fail(const std::string& text) const { throw FileError(fmt::format("tokens '{}': {}", path, text)); }
  void map();
  std::int64_t check() const;
};

void Tokens::Source::map() {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail(fmt::format("the file must be readable; {}", std::strerror(errno)));
  struct stat status {};
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  mapped_bytes = is_file ? static_cast<std::size_t>(status.st_size) : 0;
  void* memory = mapped_bytes >= kFrame ? ::mmap(nullptr, mapped_bytes, PROT_READ, MAP_SHARED, descriptor, 0) : nullptr;
  const int error = errno;
  ::close(descriptor);
  if (!is_file) fail("it must be a file; got a folder or a device");
  if (!memory) fail(fmt::format("must have at least {} bytes; got {}; it is damaged", kFrame, mapped_bytes));
  if (memory == MAP_FAILED) fail(fmt::format("could not be mapped into memory; {}", std::strerror(error)));
  mapping = memory;
}

/// The number of tokens.
std::int64_t Tokens::Source::check() const {
  std::uint64_t count = 0;
  std::memcpy(&count, static_cast<const std::byte*>(mapping) + mapped_bytes - sizeof count, sizeof count);
  if (std::memcmp(header.mark, Header().mark, sizeof header.mark) != 0 || header.version != Header().version)
    fail("must begin with \"tgtokens\" and version 1; it is another file, or damaged; write_tokens makes such files");
  if (header.vocabulary < 1 || header.vocabulary > std::uint64_t{1} << 32 ||
      header.width != width_for(header.vocabulary))
    fail(
        fmt::format("must have 2 bytes for a token of a vocabulary up to 65536, else 4; got {} bytes and {} tokens; it "
                    "is damaged",
                    header.width, header.vocabulary));
  const std::size_t bytes = mapped_bytes - kFrame;
  if (bytes % header.width != 0 || bytes / header.width != count)
    fail(
        fmt::format("must hold as many tokens as its end says; got {} bytes of tokens and the number {}; it was cut "
                    "short, or is damaged",
                    bytes, count));
  return static_cast<std::int64_t>(count);
}

Tokens::Tokens(const std::vector<std::int64_t>& tokens) : begin_(0), end_(static_cast<std::int64_t>(tokens.size())) {
  auto source = std::make_shared<Source>();
  source->kept = tokens;
  source_ = std::move(source);
}

Tokens Tokens::open(const std::string& path) {
  auto source = std::make_shared<Source>();
  source->path = path;
  source->map();
  std::memcpy(&source->header, source->mapping, sizeof(Header));
  const std::int64_t count = source->check();
  return {std::move(source), 0, count};
}

Tokens Tokens::slice(std::int64_t begin, std::int64_t end) const {
  require<IndexError>(begin >= 0 && begin <= end && end <= size(),
                      "Tokens::slice: must be 0 <= begin <= end <= {}; got {} and {}", size(), begin, end);
  return {source_, begin_ + begin, begin_ + end};
}

void Tokens::copy(std::int64_t begin, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  require<IndexError>(begin >= 0 && count <= size() && begin <= size() - count,
                      "Tokens::copy: {} tokens from {} on must be among {}", count, begin, size());
  if (out.empty()) return;
  const Source& source = *source_;
  const std::byte* from = source.token(begin_ + begin);
  if (!source.mapping) return widen<std::int64_t>(from, out);
  source.header.width == 2 ? widen<std::uint16_t>(from, out) : widen<std::uint32_t>(from, out);
  const auto vocabulary = static_cast<std::int64_t>(source.header.vocabulary);
  for (std::int64_t i = 0; i < count; ++i)
    if (out[static_cast<std::size_t>(i)] >= vocabulary)
      source.fail(fmt::format("tokens must be below {}, its vocabulary; got {} at {}; it is damaged", vocabulary,
                              out[static_cast<std::size_t>(i)], begin_ + begin + i));
}

void write_tokens(const std::string& path, std::int64_t vocabulary,
                  const std::function<std::vector<std::int64_t>()>& next) {
  require(vocabulary >= 1 && vocabulary <= std::int64_t{1} << 32,
          "write_tokens: the vocabulary must be from 1 to 2^32; got {}", vocabulary);
  const Header header{.width = width_for(static_cast<std::uint64_t>(vocabulary)),
                      .vocabulary = static_cast<std::uint64_t>(vocabulary)};
  std::uint64_t count = 0;
  bool at_end = false;
  std::vector<std::byte> bytes;
  core::write_file_atomically("write_tokens", path, [&]() -> std::span<const std::byte> {
    bytes.clear();
    if (at_end) return bytes;
    if (count == 0) append(bytes, header);
    const std::vector<std::int64_t> tokens = next();
    for (std::int64_t token : tokens) {
      require<IndexError>(token >= 0 && token < vocabulary, "write_tokens: tokens must be from 0 to {}; got {} at {}",
                          vocabulary - 1, token, count);
      header.width == 2 ? append(bytes, static_cast<std::uint16_t>(token))
                        : append(bytes, static_cast<std::uint32_t>(token));
      ++count;
    }
    at_end = tokens.empty();
    if (at_end) append(bytes, count);
    return bytes;
  });
}

void write_tokens(const std::string& path, std::int64_t vocabulary, std::span<const std::int64_t> tokens) {
  write_tokens(path, vocabulary, [&] {
    const std::size_t count = std::min<std::size_t>(tokens.size(), 1 << 20);
    const std::vector<std::int64_t> piece(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
    tokens = tokens.subspan(count);
    return piece;
  });
}

}  // namespace tapegrad::data
