// Tokenizers: merges by hand, round trips of any bytes, files that are damaged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tg = tapegrad;
namespace data = tapegrad::data;
namespace fs = std::filesystem;

namespace {

using Tokens = std::vector<std::int64_t>;
using Merges = std::vector<data::BpeTokenizer::Pair>;

std::string random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 generator(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(generator());
  return bytes;
}

TEST(CharTokenizer, TokensAreTheSortedCodePoints) {
  const data::CharTokenizer tokenizer(
      "b\xC3\xA9"
      "a\r\nb\xF0\x9F\x98\x80");
  EXPECT_EQ(tokenizer.size(), 6);
  EXPECT_EQ(tokenizer.encode("ab\n\r\xC3\xA9\xF0\x9F\x98\x80"), (Tokens{2, 3, 0, 1, 4, 5}));
  EXPECT_EQ(tokenizer.decode(Tokens{5, 4, 2}),
            "\xF0\x9F\x98\x80\xC3\xA9"
            "a");
  EXPECT_EQ(tokenizer.decode(4), "\xC3\xA9");
  EXPECT_TRUE(tokenizer.encode("").empty());
  EXPECT_TRUE(tokenizer.contains(U'é') && !tokenizer.contains(U'z'));
}

TEST(CharTokenizer, UnknownCharactersAreShown) {
  const data::CharTokenizer tokenizer("abc");
  const std::string text = error_of([&] { tokenizer.encode("ab?"); });
  for (const char* part : {"'?'", "position 2", "vocabulary's 3"}) expect_contains(text, part);
  expect_contains(error_of([&] { tokenizer.encode("\xC3\xA9"); }), "U+00E9 at position 0");
  expect_contains(error_of([&] { tokenizer.encode("a\n"); }), "U+000A");
  for (const char* bad : {"a\xFF", "\xC0\x80", "\xED\xA0\x80", "\xC3", "\xF5\x80\x80\x80", "\xE0\x80\x80"})
    expect_contains(error_of([&] { tokenizer.encode(bad); }), "must be UTF-8");
  expect_contains(error_of([&] { data::CharTokenizer(""); }), "at least one character");
  expect_contains(error_of([&] { tokenizer.decode(Tokens{0, 3}); }), "from 0 to 2; got 3 at position 1");
  EXPECT_THROW(tokenizer.decode(-1), tg::IndexError);
}

/// aaabdaaabac: aa becomes Z, then ab Y, then ZY X: XdXac (the example of Gage's encoding in Wikipedia).
TEST(BpeTokenizer, KnownMergesByHand) {
  const auto tokenizer = data::BpeTokenizer::train("aaabdaaabac", 259);
  EXPECT_EQ(tokenizer.merges(), (Merges{{'a', 'a'}, {'a', 'b'}, {256, 257}}));
  EXPECT_EQ(tokenizer.encode("aaabdaaabac"), (Tokens{258, 'd', 258, 'a', 'c'}));
  EXPECT_EQ(tokenizer.encode("aaa"), (Tokens{256, 'a'}));
  EXPECT_EQ(tokenizer.decode(258), "aaab");
}

TEST(BpeTokenizer, TrainingEndsWhenNoPairComesTwice) {
  EXPECT_EQ(data::BpeTokenizer::train("abab", 1000).merges(), (Merges{{'a', 'b'}}));
  EXPECT_EQ(data::BpeTokenizer::train("", 300).size(), 256);
  EXPECT_EQ(data::BpeTokenizer::train("x", 300).size(), 256);
  EXPECT_EQ(data::BpeTokenizer::train("abab", 256).size(), 256);
  EXPECT_THROW(data::BpeTokenizer::train("abab", 255), tg::ValueError);
}

/// Merges stay inside of pieces: letters, digits, other signs, each with a space before them, and white space.
TEST(BpeTokenizer, PiecesAreCutAsDocumented) {
  const auto tokenizer = data::BpeTokenizer::train(
      "the cat1999 the cat1999! the cat1999!  the cat\n\n the \xC3\xA9t\xC3\xA9 \xC3\xA9t\xC3\xA9", 400);
  std::map<std::string, int> tokens;
  for (std::int64_t token = 256; token < tokenizer.size(); ++token) ++tokens[tokenizer.decode(token)];
  for (const char* there : {" the", " cat", "1999", " \xC3\xA9t\xC3\xA9"}) EXPECT_TRUE(tokens.contains(there)) << there;
  for (const auto& [token, times] : tokens) {
    EXPECT_EQ(times, 1) << token;
    EXPECT_EQ(token.find_last_of(" ") == token.npos || token.find_last_of(" ") == 0, true) << token;
    EXPECT_FALSE(token.find("t1") != token.npos || token.find("9!") != token.npos) << token;
  }
}

TEST(BpeTokenizer, AnyBytesComeBack) {
  std::string text = "An old man \xC3\xA9 sat. \n\n  An old\tman, 42 \xF0\x9F\x98\x80 sat there  ";
  const auto tokenizer = data::BpeTokenizer::train(text + text + text, 300);
  EXPECT_GT(tokenizer.size(), 256);
  EXPECT_LT(tokenizer.encode(text).size(), text.size());
  const std::string all = text + random_bytes(20000, 1) + std::string(1000, 'a') + std::string(1000, ' ') + '\0';
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all)), all);
  EXPECT_TRUE(tokenizer.encode("").empty());
  EXPECT_EQ(tokenizer.decode(Tokens{}), "");
  for (unsigned size = 0; size < 200; ++size) {
    const std::string bytes = random_bytes(size, size);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
  }
  const std::string noise = random_bytes(3000, 7);
  const auto of_noise = data::BpeTokenizer::train(noise + noise, 1000);
  EXPECT_EQ(of_noise.decode(of_noise.encode(noise)), noise);
}

/// The plain algorithm: count everything anew for each merge.
Merges naive_merges(const std::string& letters, std::int64_t count) {
  Merges merges;
  std::vector<std::int32_t> tokens(letters.begin(), letters.end());
  while (static_cast<std::int64_t>(merges.size()) < count) {
    std::map<data::BpeTokenizer::Pair, int> pairs;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) ++pairs[{tokens[i], tokens[i + 1]}];
    auto best = pairs.begin();
    for (auto pair = pairs.begin(); pair != pairs.end(); ++pair)
      if (pair->second > best->second) best = pair;
    if (best == pairs.end() || best->second < 2) break;
    const auto token = static_cast<std::int32_t>(256 + merges.size());
    std::vector<std::int32_t> next;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool found = i + 1 < tokens.size() && tokens[i] == best->first.first && tokens[i + 1] == best->first.second;
      next.push_back(found ? token : tokens[i]);
      i += found;
    }
    merges.push_back(best->first);
    tokens = next;
  }
  return merges;
}

TEST(BpeTokenizer, IncrementalCountsAreTheCounts) {
  std::mt19937 generator(3);
  for (int run = 0; run < 200; ++run) {
    std::string letters(1 + generator() % 64, 'a');
    for (char& letter : letters) letter = static_cast<char>('a' + generator() % 3);
    EXPECT_EQ(data::BpeTokenizer::train(letters, 290).merges(), naive_merges(letters, 34)) << letters;
  }
}

class TokenizerFile : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove(path_); }
  std::string error_of_text(const std::string& text) const {
    std::ofstream(path_) << text;
    return error_of([&] { data::load_tokenizer(path_); });
  }
  std::string path_ = fs::temp_directory_path() / ("tapegrad-tokenizer-" + std::to_string(::getpid()));
};

TEST_F(TokenizerFile, BothKindsComeBackFromFilesAndMetadata) {
  const std::string text = "to be or not to be \xC3\xA9\"\\\x01";
  const data::CharTokenizer characters(text);
  const auto pairs = data::BpeTokenizer::train(text, 270);
  for (const data::Tokenizer* tokenizer :
       {static_cast<const data::Tokenizer*>(&characters), static_cast<const data::Tokenizer*>(&pairs)}) {
    tokenizer->save(path_);
    const auto loaded = data::load_tokenizer(path_);
    EXPECT_EQ(loaded->to_json(), tokenizer->to_json());
    EXPECT_EQ(loaded->encode(text), tokenizer->encode(text));
    tg::save_safetensors(path_, {}, {{"tokenizer", tokenizer->to_json()}});
    const tg::AnnotatedStateDict file = tg::load_annotated_safetensors(path_);
    EXPECT_EQ(data::parse_tokenizer(file.metadata.at("tokenizer"))->size(), tokenizer->size());
  }
}

TEST_F(TokenizerFile, DamagedFilesAreRefused) {
  for (const char* text :
       {"", "{", "[]", "null", "{\"type\":\"word\"}", "{\"type\":3}", "{\"type\":\"bpe\"}",
        "{\"type\":\"bpe\",\"merges\":[[97]]}", "{\"type\":\"bpe\",\"merges\":[[97,98,99]]}",
        "{\"type\":\"bpe\",\"merges\":[[97.5,98]]}", "{\"type\":\"bpe\",\"merges\":[[true,98]]}",
        "{\"type\":\"bpe\",\"merges\":[[256,97]]}", "{\"type\":\"bpe\",\"merges\":[[-1,97]]}",
        "{\"type\":\"bpe\",\"merges\":[[97,98],[97,98]]}", "{\"type\":\"bpe\",\"merges\":[[4294967393,98]]}",
        "{\"type\":\"char\",\"characters\":\"ba\"}", "{\"type\":\"char\",\"characters\":\"aa\"}",
        "{\"type\":\"char\",\"characters\":\"\"}", "{\"type\":\"char\",\"characters\":\"a\",\"more\":1}"})
    expect_contains(error_of_text(text), path_);
  expect_contains(error_of_text(std::string(100'000, '[')), path_);
  std::string doubling = "{\"type\":\"bpe\",\"merges\":[[97,97]";
  for (int token = 256; token < 300; ++token)
    doubling += ",[" + std::to_string(token) + "," + std::to_string(token) + "]";
  expect_contains(error_of_text(doubling + "]}"), "67108864 bytes");
  fs::remove(path_);
  expect_contains(error_of([&] { data::load_tokenizer(path_); }), "No such file");
  expect_contains(error_of([] { data::load_tokenizer(fs::temp_directory_path()); }), "directory");
}

}  // namespace
