// Writing a file so that a reader, or a later start after a crash, finds either the old content or the new, whole.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace tapegrad::core {

/// Writes the pieces, one after the other, to a new file beside `path`, flushes it to the disk and renames it to
/// `path`. FileError in the operation's name if any of that fails: the file at `path` is then as it was, and nothing is
/// left beside it.
void write_file_atomically(const char* operation, const std::string& path,
                           std::span<const std::span<const std::byte>> pieces);

}  // namespace tapegrad::core
