// A stochastic grammar for English-like sentences whose entropy is known exactly: the best loss that any model can
// reach.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace toy_lm {

/// One rule a line, `name = alternative | alternative ...`; the first rule makes a sentence. An alternative is an
/// optional weight (1 if left out) and symbols: <name> stands for a rule, anything else for a word. Rules are not
/// recursive.
///
/// In each rule the first words that its alternatives can begin with differ (else std::logic_error), so a reader knows
/// at every word which alternative was taken: a text has one derivation, and the entropy of derivations is that of
/// texts.
class Grammar {
 public:
  explicit Grammar(std::string_view rules);
  /// The corpus that toy_lm learns without --text.
  static const Grammar& builtin();

  /// Whole sentences, one a line, until there are at least `characters`. Depends on seed and grammar alone.
  std::string generate(std::uint64_t seed, std::size_t characters) const;

  /// Entropy of a sentence divided by its mean length (with its newline), in nats per character. Sentences are
  /// independent and end visibly, so this is the entropy rate of the text.
  double entropy_per_character() const;

  /// log of the probability of this sentence, newline left out; nothing if the grammar does not make it.
  std::optional<double> log_probability(std::string_view sentence) const;

 private:
  struct Symbol {
    bool is_rule;
    std::string word;
    std::size_t rule;
  };
  struct Alternative {
    double probability;
    std::vector<Symbol> symbols;
    std::set<std::string> first_words;
  };
  struct Rule {
    std::string name;
    std::vector<Alternative> alternatives;
  };
  struct Measure {
    double entropy;
    double words;
    double letters;
  };

  Symbol read_symbol(const std::string& text, const std::map<std::string, std::size_t>& numbers) const;
  void find_first_words(std::size_t rule, std::set<std::size_t>& open);
  Measure measure(std::size_t rule) const;

  std::vector<Rule> rules_;
};

}  // namespace toy_lm
