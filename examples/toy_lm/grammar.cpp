#include "grammar.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <tapegrad/core/random.hpp>

namespace toy_lm {
namespace {

constexpr std::string_view kBuiltin = R"(
sentence = <subject> <predicate>
subject = 4 the <being> | 2 a <being> | 4 <name>
being = 7 <animal> | 3 <trait> <animal>
object = 5 the <item> | 5 a <item>
item = 7 <thing> | 3 <colour> <thing>
predicate = 7 <action> <object> <ending> | 3 <motion> <ending>
ending = 7 . | 3 <where> the <place> .
name = Anna | Tom | Lucy | Ben | Clara | Max | Ella | Sam | Nora | Paul | Kim | Rob | Ida | Hugo | Jane | Fred | Will | Vera | Gus | Zoe
animal = dog | cat | fox | bear | mouse | pig | goat | lion | rat | hen | jay | newt | yak | wolf | vole | toad | swan | kid | bird | lamb
trait = old | young | hungry | small | lazy | brave | tired | clever | fat | quiet | mad | rich
action = saw | got | wanted | took | liked | had | hid | bought | kept | needed | made | lost | drew | fixed | cut | felt | used | passed | valued
motion = slept | ran | jumped | waited | danced | ate | laughed | played | cried | vanished | fell | knelt
thing = ball | hat | cake | lamp | key | drum | book | pear | ring | spoon | toy | rope | map | violin | jug | net | fan | whip | zip | jar | mug | bell | coat | desk | gift | log | nut | pin | quill | sock | tent | vase
colour = red | green | blue | white | yellow | pink | huge | dark | new
where = near | behind | under | in | at | by | outside
place = house | river | tree | bridge | garden | mill | church | lake | inn | forest | school | pond | wall | yard
)";

/// A word ends where the next one starts: a space stands before every word but the first, and none before a full stop.
bool takes_space(const std::string& word) { return word != "."; }

char with_case(char letter, int (*change)(int)) {
  return static_cast<char>(change(static_cast<unsigned char>(letter)));
}

/// A text's words: split at spaces, the full stop on its own, the first letter small unless the word is a name.
std::vector<std::string> words_of(std::string_view sentence) {
  std::vector<std::string> words(1);
  for (char letter : sentence) {
    if (letter == ' ' || letter == '.') words.emplace_back();
    if (letter != ' ') words.back() += letter;
  }
  return words;
}

}  // namespace

Grammar::Grammar(std::string_view rules) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::string> lines;
  std::istringstream stream{std::string(rules)};
  for (std::string line; std::getline(stream, line);)
    if (std::string name; std::istringstream(line) >> name) {
      if (!numbers.emplace(name, lines.size()).second) throw std::logic_error("grammar: two rules for " + name);
      lines.push_back(line);
    }
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::string name, equals;
    words >> name >> equals;
    Rule rule{name, {{1.0, {}, {}}}};
    for (std::string word; words >> word;) {
      Alternative& last = rule.alternatives.back();
      if (word == "|")
        rule.alternatives.push_back({1.0, {}, {}});
      else if (last.symbols.empty() && std::isdigit(static_cast<unsigned char>(word[0])))
        last.probability = std::stod(word);
      else
        last.symbols.push_back(read_symbol(word, numbers));
    }
    double total = 0;
    for (const Alternative& alternative : rule.alternatives) total += alternative.probability;
    for (Alternative& alternative : rule.alternatives) alternative.probability /= total;
    rules_.push_back(std::move(rule));
  }
  std::set<std::size_t> open;
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) find_first_words(rule, open);
}

Grammar::Symbol Grammar::read_symbol(const std::string& text, const std::map<std::string, std::size_t>& numbers) const {
  if (text.front() != '<') return {false, text, 0};
  const auto found = numbers.find(text.substr(1, text.size() - 2));
  if (found == numbers.end()) throw std::logic_error("grammar: no rule for " + text);
  return {true, {}, found->second};
}

void Grammar::find_first_words(std::size_t number, std::set<std::size_t>& open) {
  Rule& rule = rules_[number];
  if (!open.insert(number).second) throw std::logic_error("grammar: rule " + rule.name + " contains itself");
  std::set<std::string> seen;
  for (Alternative& alternative : rule.alternatives) {
    if (alternative.symbols.empty()) throw std::logic_error("grammar: an alternative of " + rule.name + " is empty");
    for (const Symbol& symbol : alternative.symbols)
      if (symbol.is_rule) find_first_words(symbol.rule, open);
    const Symbol& first = alternative.symbols.front();
    if (!first.is_rule) alternative.first_words = {first.word};
    if (first.is_rule)
      for (const Alternative& inner : rules_[first.rule].alternatives)
        alternative.first_words.insert(inner.first_words.begin(), inner.first_words.end());
    for (const std::string& word : alternative.first_words)
      if (!seen.insert(word).second)
        throw std::logic_error("grammar: two alternatives of " + rule.name + " can begin with " + word);
  }
  open.erase(number);
}

std::string Grammar::generate(std::uint64_t seed, std::size_t characters) const {
  std::uint64_t counter = 0;
  auto uniform = [&] {
    const auto words = tapegrad::core::philox(seed, counter++);
    return std::ldexp(static_cast<double>((std::uint64_t{words[0]} << 32 | words[1]) >> 11), -53);
  };
  std::string text;
  std::function<void(std::size_t)> expand = [&](std::size_t rule) {
    double left = uniform();
    const auto& alternatives = rules_[rule].alternatives;
    std::size_t choice = 0;
    while (choice + 1 < alternatives.size() && left >= alternatives[choice].probability)
      left -= alternatives[choice++].probability;
    for (const Symbol& symbol : alternatives[choice].symbols) {
      if (symbol.is_rule) {
        expand(symbol.rule);
        continue;
      }
      if (takes_space(symbol.word) && !text.empty() && text.back() != '\n') text += ' ';
      text += symbol.word;
    }
  };
  while (text.size() < characters) {
    const std::size_t start = text.size();
    expand(0);
    text[start] = with_case(text[start], std::toupper);
    text += '\n';
  }
  return text;
}

Grammar::Measure Grammar::measure(std::size_t rule) const {
  Measure total{0, 0, 0};
  for (const Alternative& alternative : rules_[rule].alternatives) {
    Measure sum{-std::log(alternative.probability), 0, 0};
    for (const Symbol& symbol : alternative.symbols) {
      const Measure part =
          symbol.is_rule ? measure(symbol.rule)
                         : Measure{0, takes_space(symbol.word) ? 1.0 : 0.0, static_cast<double>(symbol.word.size())};
      sum = {sum.entropy + part.entropy, sum.words + part.words, sum.letters + part.letters};
    }
    total.entropy += alternative.probability * sum.entropy;
    total.words += alternative.probability * sum.words;
    total.letters += alternative.probability * sum.letters;
  }
  return total;
}

double Grammar::entropy_per_character() const {
  const Measure sentence = measure(0);
  return sentence.entropy / (sentence.letters + sentence.words);  // a space or the newline for each word
}

std::optional<double> Grammar::log_probability(std::string_view sentence) const {
  if (sentence.empty() || std::islower(static_cast<unsigned char>(sentence[0]))) return {};
  std::vector<std::string> words = words_of(sentence);
  std::size_t position = 0;
  double sum = 0;
  std::function<bool(std::size_t)> read = [&](std::size_t rule) {
    if (position == words.size()) return false;
    const auto& alternatives = rules_[rule].alternatives;
    const auto taken = std::find_if(alternatives.begin(), alternatives.end(), [&](const Alternative& alternative) {
      return alternative.first_words.contains(words[position]);
    });
    if (taken == alternatives.end()) return false;
    sum += std::log(taken->probability);
    for (const Symbol& symbol : taken->symbols) {
      if (symbol.is_rule ? !read(symbol.rule) : position == words.size() || words[position] != symbol.word)
        return false;
      if (!symbol.is_rule) ++position;
    }
    return true;
  };
  auto starts_with = [&](const std::string& word) {
    return std::any_of(rules_[0].alternatives.begin(), rules_[0].alternatives.end(),
                       [&](const Alternative& alternative) { return alternative.first_words.contains(word); });
  };
  if (!starts_with(words[0])) words[0][0] = with_case(words[0][0], std::tolower);
  if (!read(0) || position != words.size()) return {};
  return sum;
}

const Grammar& Grammar::builtin() {
  static const Grammar grammar(kBuiltin);
  return grammar;
}

}  // namespace toy_lm
