#include "text.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <tapegrad/core/error.hpp>

#include "bad_input.hpp"

namespace toy_lm {
namespace {

/// Devices and pipes may have no end, or nothing to give; a resumed run reads its text again.
std::string read_file(const std::string& path) {
  struct stat status {};
  const auto fail = [&](const std::string& what) { throw BadInput(fmt::format("text '{}': {}", path, what)); };
  if (::stat(path.c_str(), &status) != 0) fail(fmt::format("must be readable; {}", std::strerror(errno)));
  if (S_ISDIR(status.st_mode)) fail("must be a file; it is a folder");
  if (!S_ISREG(status.st_mode)) fail("must be a file; it is a device or a pipe; write its text into a file");
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (static_cast<double>(status.st_size) > memory)
    fail(fmt::format("must fit into memory; it has {} bytes", status.st_size));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) fail(fmt::format("must be readable; {}", std::strerror(errno)));
  std::string bytes;
  std::vector<char> part(1 << 16);
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), file.get()))
    bytes.append(part.data(), count);
  if (std::ferror(file.get())) fail(fmt::format("must be readable to its end; {}", std::strerror(errno)));
  if (bytes.empty()) fail("must not be empty");
  return bytes;
}

}  // namespace

std::u32string decode_utf8(std::string_view bytes, const std::string& what) {
  try {
    return tapegrad::data::decode_utf8(bytes, what);
  } catch (const tapegrad::ValueError& error) {
    throw BadInput(error.what());
  }
}

std::u32string read_text_files(const std::vector<std::string>& paths) {
  std::u32string text;
  for (const std::string& path : paths) text += decode_utf8(read_file(path), fmt::format("text '{}'", path));
  return text;
}

Vocabulary::Vocabulary(const std::u32string& text) : characters_(text) {
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
  for (char32_t character : characters_) tokens_.emplace(character, static_cast<std::int64_t>(tokens_.size()));
}

std::vector<std::int64_t> Vocabulary::encode(const std::u32string& text, const std::string& what) const {
  if (pairs_) return pairs_->encode(encode_utf8(text));
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (char32_t character : text) {
    const auto found = tokens_.find(character);
    if (found == tokens_.end())
      throw BadInput(
          fmt::format("{}: the character {} at position {} is not among the {} characters that the model knows", what,
                      shown(character), tokens.size(), size()));
    tokens.push_back(found->second);
  }
  return tokens;
}

std::string Vocabulary::decode(std::int64_t token) const {
  if (pairs_) return pairs_->decode(token);
  return encode_utf8({&characters_.at(static_cast<std::size_t>(token)), 1});
}

Split split_tokens(std::vector<std::int64_t> tokens, std::int64_t context) {
  const auto cut = static_cast<std::int64_t>(0.9 * static_cast<double>(tokens.size()));
  const std::int64_t rest = static_cast<std::int64_t>(tokens.size()) - cut;
  if (std::min(cut, rest) <= context)
    throw BadInput(
        fmt::format("text: must have at least {:.0f} tokens for a context of {} (a tenth is for validation); "
                    "got {}; give more text or a smaller --context",
                    10 * (static_cast<double>(context) + 1), context, tokens.size()));
  Split split;
  split.validation.assign(tokens.begin() + cut, tokens.end());
  tokens.resize(static_cast<std::size_t>(cut));
  split.training = std::move(tokens);
  return split;
}

}  // namespace toy_lm
