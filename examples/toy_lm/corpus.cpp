#include "corpus.hpp"

#include "grammar.hpp"

namespace toy_lm {

Corpus load_corpus(const std::vector<std::string>& files, std::uint64_t seed, std::int64_t context,
                   std::optional<std::int64_t> pairs) {
  constexpr std::size_t kBuiltinCharacters = 1'000'000;
  const bool builtin = files.empty();
  const std::u32string text =
      builtin ? decode_utf8(Grammar::builtin().generate(seed, kBuiltinCharacters), "corpus") : read_text_files(files);
  Vocabulary vocabulary =
      pairs ? Vocabulary(tapegrad::data::BpeTokenizer::train(encode_utf8(text), *pairs)) : Vocabulary(text);
  Split split = split_tokens(vocabulary.encode(text, "text"), context);
  std::string name = builtin             ? "built-in corpus"
                     : files.size() == 1 ? files[0]
                                         : std::to_string(files.size()) + " files";
  return {std::move(name), std::move(vocabulary), std::move(split),
          builtin && !pairs ? std::optional(Grammar::builtin().entropy_per_character()) : std::nullopt};
}

}  // namespace toy_lm
