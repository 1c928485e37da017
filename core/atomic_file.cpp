#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad::core {
namespace {

constexpr const char* kInfix = ".tmp-";

std::filesystem::path folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

/// Removes what processes that were killed have left beside `path`. A writer holds a lock on its temporary file for as
/// long as it lives, so one that can be locked has no writer.
void remove_abandoned(const std::string& path) {
  const std::string start = std::filesystem::path(path).filename().string() + kInfix;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_of(path), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    // Numbers behind it, as a writer gives them: "<path>.tmp-old" may be the user's own.
    if (!name.starts_with(start) || name.find_first_not_of("0123456789-", start.size()) != name.npos) continue;
    const int descriptor = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) continue;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
    ::close(descriptor);
  }
}

/// A file beside the one to be written; removed on destruction unless it took the other's place.
class TemporaryFile {
 public:
  TemporaryFile(const char* operation, const std::string& path) : operation_(operation), path_(path) {
    static std::atomic<unsigned> counter{0};
    do {
      if (descriptor_ >= 0) ::close(descriptor_);
      name_ = fmt::format("{}{}{}-{}", path_, kInfix, ::getpid(), counter++);
      descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 ? errno == EEXIST : !lock());
    if (descriptor_ < 0) fail("create a file beside");
    struct stat old {};
    if (::stat(path_.c_str(), &old) == 0) ::fchmod(descriptor_, old.st_mode & 0777);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!renamed_) ::unlink(name_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("write");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void replace_target() {
    if (::fsync(descriptor_) != 0) fail("flush");
    if (::rename(name_.c_str(), path_.c_str()) != 0) fail("rename the new file to");
    renamed_ = true;  // still locked: nobody took it for abandoned on the way
    flush_directory();
  }

 private:
  /// False if another process took the file for abandoned before it was locked. A file system without locks is no
  /// error: there nothing is taken for abandoned.
  bool lock() const {
    struct stat status {};
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
    return ::fstat(descriptor_, &status) != 0 || status.st_nlink > 0;
  }

  /// The new name is on the disk only when its directory is. Some file systems can't flush directories: that is no
  /// error.
  void flush_directory() {
    const int descriptor = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    const bool failed = ::fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP;
    const int error = errno;
    ::close(descriptor);
    errno = error;
    if (failed) fail("flush the folder of");
  }

  [[noreturn]] void fail(const char* what) {
    const int error = errno;
    throw FileError(
        fmt::format("{}: '{}' must be writable; could not {} it: {}", operation_, path_, what, std::strerror(error)));
  }

  const char* operation_;
  std::string path_;
  std::string name_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

}  // namespace

void write_file_atomically(const char* operation, const std::string& path,
                           std::span<const std::span<const std::byte>> pieces) {
  remove_abandoned(path);
  TemporaryFile file(operation, path);
  for (const auto& piece : pieces) file.write(piece);
  file.replace_target();
}

void write_file_atomically(const char* operation, const std::string& path, std::string_view text) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  write_file_atomically(operation, path, {&piece, 1});
}

void write_file_atomically(const char* operation, const std::string& path,
                           const std::function<std::span<const std::byte>()>& next_piece) {
  remove_abandoned(path);
  TemporaryFile file(operation, path);
  for (auto piece = next_piece(); !piece.empty(); piece = next_piece()) file.write(piece);
  file.replace_target();
}

}  // namespace tapegrad::core
