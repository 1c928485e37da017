#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <tapegrad/core/atomic_file.hpp>
#include <tapegrad/core/error.hpp>

namespace tapegrad::core {
namespace {

/// A file beside the one to be written; removed on destruction unless it took the other's place.
class TemporaryFile {
 public:
  TemporaryFile(const char* operation, const std::string& path) : operation_(operation), path_(path) {
    static std::atomic<unsigned> counter{0};
    do {
      name_ = fmt::format("{}.tmp-{}-{}", path_, ::getpid(), counter++);
      descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EEXIST);
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
    if (::close(std::exchange(descriptor_, -1)) != 0) fail("close");
    if (::rename(name_.c_str(), path_.c_str()) != 0) fail("rename the new file to");
    renamed_ = true;
    flush_directory();
  }

 private:
  /// The new name is on the disk only when its directory is. Some file systems can't flush directories: that is no
  /// error.
  void flush_directory() {
    std::string folder = std::filesystem::path(path_).parent_path().string();
    if (folder.empty()) folder = ".";
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
  TemporaryFile file(operation, path);
  for (const auto& piece : pieces) file.write(piece);
  file.replace_target();
}

}  // namespace tapegrad::core
