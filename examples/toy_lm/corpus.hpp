// What is learnt: the user's files, or the built-in corpus.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text.hpp"

namespace toy_lm {

struct Corpus {
  std::string name;
  Vocabulary vocabulary;
  Split split;
  std::optional<double> floor;  // entropy per token, where it is known
};

/// Of characters, or of so many `pairs`. BadInput for files that can't be used (see text.hpp).
Corpus load_corpus(const std::vector<std::string>& files, std::uint64_t seed, std::int64_t context,
                   std::optional<std::int64_t> pairs = {});

}  // namespace toy_lm
