// Writing a file so that a reader, or a later start after a crash, finds either the old content or the new, whole.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tapegrad::core {

/// Writes the pieces, one after the other, to a new file beside `path` ("<path>.tmp-..."), flushes it to the disk,
/// renames it to `path` and flushes the folder. FileError in the operation's name if any of that fails: the file at
/// `path` is then as it was (or, if only the folder could not be flushed, the new one), and nothing is left beside it.
/// What a killed process has left beside it is removed by the next write.
void write_file_atomically(const char* operation, const std::string& path,
                           std::span<const std::span<const std::byte>> pieces);
void write_file_atomically(const char* operation, const std::string& path, std::string_view text);
/// The same with pieces that are made one at a time, until one is empty.
void write_file_atomically(const char* operation, const std::string& path,
                           const std::function<std::span<const std::byte>()>& next_piece);

}  // namespace tapegrad::core
