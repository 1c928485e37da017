// What the programs here share: options that say what they want, and how a program ends. Exit codes: 0 done, 1 failed,
// 2 a command line that makes no sense.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <tapegrad/core/threads.hpp>
#include <vector>

namespace arguments {

/// Whole numbers, both ends among them.
struct Whole {
  std::int64_t from = 0;
  std::int64_t to = INT64_MAX;
  static constexpr const char* kType = "INT";
  bool holds(std::int64_t value) const { return from <= value && value <= to; }
  std::string text() const { return fmt::format("a whole number from {} to {}", from, to); }
};

struct Real {
  const char* words;
  bool (*fits)(double);
  static constexpr const char* kType = "FLOAT";
  bool holds(double value) const { return std::isfinite(value) && fits(value); }
  std::string text() const { return words; }
};
inline constexpr Real kPositive{"a finite number above 0", [](double x) { return x > 0; }};
inline constexpr Real kNotNegative{"a finite number, 0 or above", [](double x) { return x >= 0; }};
inline constexpr Real kBelowOne{"a number from 0 to below 1", [](double x) { return x >= 0 && x < 1; }};

struct OneOf {
  std::vector<std::string> names;
  static constexpr const char* kType = "NAME";
  bool holds(const std::string& value) const { return std::find(names.begin(), names.end(), value) != names.end(); }
  std::string text() const { return fmt::format("one of {}", fmt::join(names, ", ")); }
};

/// Whether all of the text is a number that fits into T; any text is a string.
template <class T>
bool read(const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
    return true;
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  }
}

/// An option whose value must be in a range, an empty one not being any: `Whole`, `Real` or `OneOf`.
template <class T, class Range>
CLI::Option* add(CLI::App& app, const std::string& name, T& value, const Range& range, const std::string& help) {
  const auto take = [&value, range, name](const std::string& text) {
    T given{};
    if (!read(text, given) || !range.holds(given))
      throw CLI::ValidationError(name, fmt::format("must be {}; got '{}'", range.text(), text));
    value = given;
  };
  return app.add_option_function<std::string>(name, take, help)
      ->type_name(Range::kType)
      ->default_str(fmt::format("{}", value));
}

/// One line that says what is wrong. `app` is the one that did the parsing.
inline std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what(), name = text.substr(0, text.find(':'));
  const bool is_repeated = text.find("but received") != text.npos;
  if (text.find("flag override") != text.npos)
    return fmt::format("--{}: must stand without a value; got one", text.substr(0, text.find(' ')));
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch))
    return fmt::format("{}: must have {}", name, is_repeated ? "one value; got several" : "a value; got none");
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
    return fmt::format("arguments must be those that --help lists; got '{}'", fmt::join(app.remaining(true), "' '"));
  return text.substr(0, text.find('\n'));
}

/// std::runtime_error if something that was printed did not get where it should.
inline void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw std::runtime_error("the output could not be written");
}

/// A program of one file: `Program program("name", "what it does"); program.add(...); return program.run(...);`
class Program {
 public:
  Program(const std::string& name, const std::string& what_it_does) : app_(what_it_does, name) {}

  template <class T, class Range>
  void add(const std::string& name, T& value, const Range& range, const std::string& help) {
    arguments::add(app_, name, value, range, help);
  }
  void add_flag(const std::string& name, bool& value, const std::string& help) {
    app_.add_flag(name, value, help)->disable_flag_override();
  }
  /// One that must be given, without a name in front of it.
  void add_argument(const std::string& name, std::string& value, const std::string& help) {
    app_.add_option(name, value, help)->required();
  }

  /// main()'s return value: that of `body` is whether it did what it should.
  int run(int argc, char** argv, const std::function<bool()>& body) {
    try {
      app_.parse(argc, argv);
      tapegrad::num_threads();  // the environment may ask for something else than a number
    } catch (const CLI::Success& help) {
      app_.exit(help, std::cout, std::cerr);
      return finished([] { return true; });
    } catch (const CLI::ParseError& error) {
      fmt::print(stderr, "{0}: {1}; see {0} --help\n", app_.get_name(), complaint(app_, error));
      return 2;
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", app_.get_name(), error.what());
      return 2;
    }
    return finished(body);
  }

 private:
  int finished(const std::function<bool()>& body) const {
    try {
      const bool good = body();
      flush_output();
      return good ? 0 : 1;
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", app_.get_name(), error.what());
      return 1;
    }
  }

  CLI::App app_;
};

/// A program that trains as --steps and --seed say; `steps` by default.
inline int run_training(int argc, char** argv, const std::string& name, const std::string& what_it_does,
                        std::int64_t steps, bool (*learn)(std::int64_t steps, std::int64_t seed)) {
  std::int64_t seed = 1;
  Program program(name, what_it_does);
  program.add("--steps", steps, Whole{1}, "of training");
  program.add("--seed", seed, Whole{0}, "of everything that is random");
  return program.run(argc, argv, [&] { return learn(steps, seed); });
}

}  // namespace arguments
