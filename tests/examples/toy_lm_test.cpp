#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <toy_lm/bad_input.hpp>
#include <toy_lm/generation.hpp>
#include <toy_lm/grammar.hpp>
#include <toy_lm/model_file.hpp>
#include <toy_lm/run_folder.hpp>
#include <toy_lm/sampler.hpp>
#include <toy_lm/text.hpp>
#include <toy_lm/train_checks.hpp>

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "error_texts.hpp"

namespace toy_lm {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Grammar, EntropyOfASmallGrammarIsWhatItIsByHand) {
  // "A." and "Bb.", each with its newline: ln 2 nats in (3 + 4) / 2 characters.
  EXPECT_NEAR(Grammar("s = a . | bb .").entropy_per_character(), std::log(2.0) / 3.5, 1e-12);
  const double h = -0.75 * std::log(0.75) - 0.25 * std::log(0.25);
  EXPECT_NEAR(Grammar("s = <x> <x> .\nx = 3 a | 1 b").entropy_per_character(), 2 * h / 5, 1e-12);
}

TEST(Grammar, ProbabilityOfGeneratedTextConvergesToTheEntropy) {
  const Grammar& grammar = Grammar::builtin();
  const std::string text = grammar.generate(5, 1'000'000);
  std::istringstream lines(text);
  double sum = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto log_probability = grammar.log_probability(line);
    ASSERT_TRUE(log_probability) << line;
    sum += *log_probability;
  }
  EXPECT_NEAR(-sum / static_cast<double>(text.size()), grammar.entropy_per_character(), 0.002);
}

TEST(Grammar, TextDependsOnTheSeedAlone) {
  EXPECT_EQ(Grammar::builtin().generate(1, 1000), Grammar::builtin().generate(1, 1000));
  EXPECT_NE(Grammar::builtin().generate(1, 1000), Grammar::builtin().generate(2, 1000));
  EXPECT_EQ(Grammar::builtin().generate(1, 2000).substr(0, 1000), Grammar::builtin().generate(1, 1000).substr(0, 1000));
}

TEST(Grammar, OtherTextHasNoProbability) {
  const Grammar grammar("s = the <x> . | Tom .\nx = cat | dog");
  EXPECT_NEAR(grammar.log_probability("The cat.").value(), std::log(0.25), 1e-12);
  EXPECT_NEAR(grammar.log_probability("Tom.").value(), std::log(0.5), 1e-12);
  for (const char* text :
       {"", "the cat.", "The cat", "The  cat.", "The cat .", "The cow.", "The cat..", "Cat.", "tom."})
    EXPECT_FALSE(grammar.log_probability(text)) << text;
}

TEST(Grammar, RulesThatHideTheDerivationAreRefused) {
  EXPECT_THROW(Grammar("s = a b | a c"), std::logic_error);
  EXPECT_THROW(Grammar("s = <x> b | a c\nx = a"), std::logic_error);
  EXPECT_THROW(Grammar("s = a <s>"), std::logic_error);
  EXPECT_THROW(Grammar("s = a | "), std::logic_error);
  EXPECT_THROW(Grammar("s = <missing>"), std::logic_error);
  EXPECT_THROW(Grammar("s = a\ns = b"), std::logic_error);
}

TEST(Text, Utf8IsDecodedStrictlyAndEncodedBack) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\r\n";
  EXPECT_EQ(decode_utf8(text, "text"), U"a\u00e9\u20ac\U0001f600\r\n");
  EXPECT_EQ(encode_utf8(decode_utf8(text, "text")), text);
  const std::pair<const char*, const char*> wrong[] = {{"ab\xff", "offset 2"},
                                                       {"\x80", "offset 0"},
                                                       {"a\xc3", "offset 1"},
                                                       {"a\xc3(", "offset 1"},
                                                       {"\xc0\x80", "offset 0"},
                                                       {"\xe0\x80\x80", "offset 0"},
                                                       {"\xed\xa0\x80", "offset 0"},
                                                       {"\xf4\x90\x80\x80", "offset 0"},
                                                       {"\xf0\x80\x80\x80", "offset 0"},
                                                       {"\xc3\xa9\xf8", "offset 2"}};
  for (const auto& [bytes, offset] : wrong)
    expect_contains(message_of([text = bytes] { decode_utf8(text, "text 'x'"); }), offset);
}

TEST(Text, VocabularyEncodesAndNamesWhatItDoesNotKnow) {
  const Vocabulary vocabulary(U"hello");
  EXPECT_EQ(vocabulary.size(), 4);
  EXPECT_EQ(vocabulary.encode(U"hole", "prompt"), (std::vector<std::int64_t>{1, 3, 2, 0}));
  EXPECT_EQ(vocabulary.decode(3), "o");
  const std::string unknown = message_of([&] { vocabulary.encode(U"he\u00e9", "prompt"); });
  for (const char* part : {"prompt", "U+00E9", "position 2", "4 characters"}) expect_contains(unknown, part);
  expect_contains(message_of([&] { vocabulary.encode(U"?", "prompt"); }), "'?'");
}

TEST(Text, SplitIsNineToOneAndNeedsAWindowInEachPart) {
  const Split split = split_tokens(std::vector<std::int64_t>(1000), 64);
  EXPECT_EQ(split.training.size(), 900u);
  EXPECT_EQ(split.validation.size(), 100u);
  expect_contains(message_of([] { split_tokens(std::vector<std::int64_t>(640), 64); }), "650");
}

TEST(Sampler, ExtremesAreExact) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, -INFINITY, 2.0f};
  for (double uniform : {0.0, 0.5, 0.999999}) {
    EXPECT_EQ(sample(logits, {.temperature = 0}, uniform), 1);
    EXPECT_EQ(sample(logits, {.temperature = 1, .top_k = 1}, uniform), 1);
    EXPECT_NE(sample(logits, {.temperature = 1e-6}, uniform), 4);
    EXPECT_EQ(sample(logits, {.temperature = 1, .top_k = 99}, uniform), sample(logits, {.temperature = 1}, uniform));
    EXPECT_NE(sample(logits, {.temperature = 1e6}, uniform), 3);
  }
}

TEST(Sampler, FrequenciesFollowTheProbabilities) {
  const std::vector<float> logits = {0.0f, std::log(3.0f), std::log(6.0f)};
  std::array<int, 3> counts{};
  for (int i = 0; i < 10'000; ++i) ++counts[sample(logits, {.temperature = 1}, (i + 0.5) / 10'000)];
  EXPECT_EQ(counts, (std::array<int, 3>{1000, 3000, 6000}));
}

TEST(Sampler, BrokenLogitsThrow) {
  for (double temperature : {0.0, 1.0}) {
    EXPECT_THROW(sample({0.0f, NAN}, {.temperature = temperature}, 0.5), std::domain_error);
    EXPECT_THROW(sample({-INFINITY, -INFINITY}, {.temperature = temperature}, 0.5), std::domain_error);
    EXPECT_THROW(sample({0.0f, INFINITY}, {.temperature = temperature}, 0.5), std::domain_error);
    EXPECT_THROW(sample({}, {.temperature = temperature}, 0.5), std::domain_error);
  }
}

struct Outcome {
  int code;
  std::string output;
  std::string errors;
};

/// The program itself, in a folder of its own.
class ToyLm : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Outcome run(const std::string& arguments) const {
    const std::string command =
        "cd '" + folder_.string() + "' && '" TAPEGRAD_TOY_LM "' > stdout 2> stderr < /dev/null " + arguments;
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(path("stdout")), read(path("stderr"))};
  }
  /// Exit code 2, nothing on stdout, and one line on stderr with `part`.
  void expect_bad_input(const std::string& arguments, const std::string& part) const {
    SCOPED_TRACE(arguments);
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.output, "");
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
    expect_contains(outcome.errors, part);
  }
  static std::string line_with(const std::string& text, const std::string& start) {
    const auto position = text.find(start);
    return position == std::string::npos ? "" : text.substr(position, text.find('\n', position) - position);
  }
  /// The "final:" line without the speed, which differs from run to run.
  static std::string result(const Outcome& outcome) {
    const std::string line = line_with(outcome.output, "final:");
    return line.substr(0, line.find(" tokens_per_s"));
  }

  const std::string small_ = "train --layers 1 --heads 2 --width 32 --context 16 --batch 8 --eval-every 30 ";

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tapegrad-toy_lm-" + std::to_string(::getpid()));
};

TEST_F(ToyLm, BadOptionsEndWithOneLine) {
  expect_bad_input("", "the first argument must be one of train, generate, attention, info; got none");
  expect_bad_input("learn", "the first argument must be one of train, generate, attention, info; got 'learn'");
  expect_bad_input("train --speed 3", "--speed");
  expect_bad_input("train --steps -3", "--steps");
  expect_bad_input("train --steps many", "--steps");
  expect_bad_input("train --batch 0", "--batch");
  expect_bad_input("train --heads 3", "--heads");
  expect_bad_input("train --dropout 1", "--dropout");
  expect_bad_input("train --lr -1", "--lr");
  expect_bad_input("train --lr nan", "--lr");
  expect_bad_input("train --min-lr 1", "--min-lr");
  expect_bad_input("train --warmup -1", "--warmup");
  expect_bad_input("train --weight-decay -0.1", "--weight-decay");
  expect_bad_input("train --beta2 1", "--beta2");
  expect_bad_input("train --clip 0", "--clip");
  expect_bad_input("train --seed -1", "--seed");
  expect_bad_input("train --threads 0", "--threads");
  for (const char* option : {"--context", "--batch", "--layers"})
    for (const char* size : {"9223372036854775807", "100000000000"})
      expect_bad_input(std::string("train ") + option + " " + size, option);
  expect_bad_input("train --width 4000000000000000000", "--width");
  expect_bad_input("train --tokenizer bpe --vocabulary 3000000000", "--vocabulary");
  EXPECT_FALSE(std::filesystem::exists(path("toy_lm-out")));
}

TEST_F(ToyLm, EveryNumberIsTakenByItsRangeAndNoneIsEmpty) {
  const std::string whole = "must be a whole number from ", most = " to 9223372036854775807; got ";
  const std::string share = "must be a number from 0 to below 1; got ",
                    positive = "must be a finite number above 0; got ",
                    not_negative = "must be a finite number, 0 or above; got ";
  std::map<std::string, std::string> options = {{"train --vocabulary", whole + "256 to 2147483647; got "},
                                                {"train --threads", whole + "1 to 1024; got "},
                                                {"generate --temperature", not_negative}};
  for (const char* name : {"steps", "batch", "accumulate", "context", "layers", "heads", "width", "eval-every"})
    options[std::string("train --") + name] = whole + "1" + most;
  for (const char* name : {"warmup", "schedule-steps", "save-every", "seed"})
    options[std::string("train --") + name] = whole + "0" + most;
  for (const char* name : {"tokens", "top-k", "seed"}) options[std::string("generate --") + name] = whole + "0" + most;
  for (const char* name : {"dropout", "beta2", "ema"}) options[std::string("train --") + name] = share;
  for (const char* name : {"lr", "muon-lr", "clip"}) options[std::string("train --") + name] = positive;
  for (const char* name : {"min-lr", "weight-decay"}) options[std::string("train --") + name] = not_negative;
  for (const auto& [option, text] : options)
    for (const char* value : {"", "-1", "99999999999999999999999e999", "abc", "1x", " 1"})
      expect_bad_input(option + " '" + value + "'", text + "'" + value + "'");
  expect_bad_input("train --lr inf", "--lr: must be a finite number above 0; got 'inf'");
  expect_bad_input("train --seed 9223372036854775808", "got '9223372036854775808'");
  expect_bad_input("train --optimizer ''", "--optimizer: must be one of adamw, muon, sgd, adam, lion, rmsprop; got ''");
  expect_bad_input("train --recipe ''", "--recipe: must be best; got ''");
  expect_bad_input("train --lr 1 --lr 2", "--lr: must have one value; got several");
  expect_bad_input("train --lr", "--lr: must have a value; got none");
}

TEST_F(ToyLm, TheLowestRateFollowsTheHighest) {
  const auto noted = [&](const std::string& arguments) {
    EXPECT_EQ(run(small_ + "--steps 1 --out run --overwrite " + arguments).code, 0) << arguments;
    const std::string settings = run("info run").output;
    const auto at = settings.find("--min-lr ") + 9;
    return settings.substr(at, settings.find_first_of(" \n", at) - at);
  };
  EXPECT_EQ(noted(""), "0.0001");
  EXPECT_EQ(noted("--lr 5e-5"), "5e-06");
  EXPECT_EQ(noted("--lr 5e-5 --min-lr 0"), "0");
  EXPECT_EQ(noted("--lr 5e-5 --recipe best"), "0");
  expect_bad_input("train --lr 5e-5 --min-lr 1e-4",
                   "--min-lr: must be at most --lr; got --min-lr 0.0001 and --lr 5e-05; give smaller rates");
}

TEST_F(ToyLm, WhatTheRunDoesNotUseIsRefused) {
  const std::string text = ": must be left out where nothing uses it; got it with --tokenizer char and --optimizer ";
  expect_bad_input("train --muon-lr 0.1", "--muon-lr" + text + "adamw");
  expect_bad_input("train --vocabulary 300", "--vocabulary" + text + "adamw");
  expect_bad_input("train --beta2 0.9 --optimizer sgd", "--beta2" + text + "sgd");
  expect_bad_input("train --warmup 51 --steps 50", "--warmup: must be at most 50, all steps of the schedule; got 51");
  expect_bad_input("train --warmup 9000000000000000000", "at most 2000");
  EXPECT_EQ(run(small_ + "--optimizer muon --muon-lr 0.1 --warmup 9 --schedule-steps 9 --steps 1 --out a").code, 0);
  EXPECT_EQ(run(small_ + "--tokenizer bpe --vocabulary 300 --steps 1 --out b").code, 0);
}

TEST_F(ToyLm, ThreadsInTheEnvironmentMustBeANumber) {
  ASSERT_EQ(::setenv("TAPEGRAD_NUM_THREADS", "abc", 1), 0);
  expect_bad_input("train", "TAPEGRAD_NUM_THREADS");
  expect_bad_input("generate", "TAPEGRAD_NUM_THREADS");
  ::unsetenv("TAPEGRAD_NUM_THREADS");
}

TEST_F(ToyLm, OutputThatCanNotBeWrittenIsAFailure) {
  const Outcome outcome = run(small_ + "--steps 2 > /dev/full");
  EXPECT_EQ(outcome.code, 1);
}

TEST_F(ToyLm, BadTextsAndFoldersEndWithOneLine) {
  expect_bad_input("train --text missing.txt", "missing.txt");
  expect_bad_input("train --text .", "folder");
  expect_bad_input("train --text " + std::string(300, 'n'), "File name too long");
  write("empty.txt", "");
  expect_bad_input("train --text empty.txt", "empty");
  write("short.txt", "too short");
  expect_bad_input("train --text short.txt", "650");
  write("latin.txt", std::string(2000, 'a') + "\xe9" + std::string(2000, 'a'));
  expect_bad_input("train --text latin.txt", "offset 2000");
  write("good.txt", std::string(2000, 'a'));
  expect_bad_input("train --text good.txt --out good.txt", "good.txt");
  for (const char* option :
       {"train --out ", "train --resume ", "train --overwrite --out ", "info ", "generate --from "})
    expect_bad_input(option + std::string(300, 'n'), "File name too long");
  expect_bad_input("train --text good.txt --out /proc/nowhere", "/proc/nowhere");
}

TEST_F(ToyLm, ATextIsAFileThatEnds) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* text : {"/dev/zero", "/dev/full", "/dev/null", "pipe"})
    expect_bad_input(std::string("train --text ") + text,
                     std::string("text '") + text + "': must be a file; it is a device");
  expect_bad_input("train --text /proc/self/mem",
                   "text '/proc/self/mem': must be readable to its end; Input/output error");
  write("endless.txt", "a");
  std::filesystem::resize_file(path("endless.txt"), 1LL << 42);
  expect_bad_input("train --text endless.txt", "text 'endless.txt': must fit into memory; it has 4398046511104 bytes");
  write("good.txt", std::string(2000, 'a'));
  EXPECT_EQ(run(small_ + "--steps 1 --text /dev/stdin < good.txt").code, 0);
}

TEST_F(ToyLm, AFolderWithoutRoomIsNotSaidToBeForbidden) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const std::string message = message_of([&] { RunFolder(path("run"), "--out"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  expect_contains(message, "File too large");
  expect_contains(message_of([] { RunFolder("/proc/nowhere", "--resume"); }), "--resume '/proc/nowhere': must be");
}

TEST_F(ToyLm, HelpGivesTheDefaults) {
  const Outcome help = run("train --help");
  EXPECT_EQ(help.code, 0);
  for (const char* part : {"--text", "toy_lm-out", "2000", "1337", "0.99"}) expect_contains(help.output, part);
  EXPECT_EQ(run("generate --help").code, 0);
  EXPECT_EQ(run("--help").code, 0);
}

TEST_F(ToyLm, TrainingLearnsAndGeneratingReadsTheModel) {
  const Outcome first = run(small_ + "--warmup 5 --lr 1e-2 --steps 60 --out first");
  ASSERT_EQ(first.code, 0) << first.errors;
  const double loss = std::stod(result(first).substr(result(first).find("val_loss=") + 9));
  EXPECT_LT(loss, 2.8);
  EXPECT_GT(loss, Grammar::builtin().entropy_per_character());
  expect_contains(first.output, "floor 0.");
  const std::string metrics = read(path("first/metrics.csv"));
  EXPECT_EQ(metrics.substr(0, metrics.find('\n')), "step,train_loss,val_loss,lr,tokens_per_s");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 3);

  const Outcome again = run(small_ + "--warmup 5 --lr 1e-2 --steps 60 --out again --threads 1");
  EXPECT_EQ(result(again), result(first)) << "the same seed gives the same digits, on any number of threads";
  EXPECT_EQ(read(path("again/model.safetensors")), read(path("first/model.safetensors")));

  const Outcome text = run("generate --from first --tokens 40 --prompt 'The '");
  EXPECT_EQ(text.code, 0) << text.errors;
  EXPECT_EQ(text.output.size(), 45u);
  EXPECT_EQ(text.output.substr(0, 4), "The ");
  EXPECT_EQ(run("generate --from first --tokens 40 --prompt 'The '").output, text.output);
  EXPECT_EQ(run("generate --from first --tokens 5").output.size(), 6u);
  EXPECT_EQ(run("generate --from first --tokens 5 --prompt 'The old dog saw a cat near the river.'").output.size(),
            43u);
  EXPECT_EQ(run("generate --from first --tokens 9 --temperature 0 --seed 1").output,
            run("generate --from first --tokens 9 --top-k 1 --seed 2").output);

  expect_bad_input("generate --from first --prompt 'Tom 5'", "'5' at position 4");
  expect_bad_input("generate --from first --prompt 'a\xc3\xa9'", "U+00E9");
  expect_bad_input("generate --from first --prompt 'a\xe9'", "offset 1");
  expect_bad_input("generate --from first --temperature -1", "--temperature");
  expect_bad_input("generate --from first --tokens -1", "--tokens");
  expect_bad_input("generate --from nowhere", "nowhere/model.safetensors");
  std::filesystem::resize_file(path("first/model.safetensors"), 5000);
  expect_bad_input("generate --from first", "first/model.safetensors");
}

TEST_F(ToyLm, ALossThatIsNotFiniteStopsTheRunAndKeepsTheLastGoodModel) {
  // Each step multiplies the weights by -99.
  const Outcome outcome = run(
      "train --layers 1 --heads 2 --width 32 --context 16 --steps 50 --out model --lr 1 --weight-decay 100 --warmup 0 "
      "--eval-every 2");
  EXPECT_EQ(outcome.code, 1);
  expect_contains(outcome.errors, "the validation loss is nan");
  const auto saved = tg::read_checkpoint_note(path("model/checkpoint.safetensors")).step;
  EXPECT_GE(saved, 2);
  expect_contains(outcome.errors, "what was saved at step " + std::to_string(saved) + " stays");
  EXPECT_EQ(tg::first_not_finite(load_model(path("model/model.safetensors")).model), "");
  const std::string metrics = read(path("model/metrics.csv"));
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 1 + saved / 2) << metrics;
}

TEST(TrainChecks, AGradientNormThatIsNotFiniteNamesTheParameterAndKeepsTheGradients) {
  const Gpt model({.vocabulary = 5, .context = 8, .layers = 1, .heads = 2, .width = 8});
  const auto parameters = model.named_parameters();
  for (const auto& parameter : parameters) parameter.tensor.set_grad(tg::ones_like(parameter.tensor));
  parameters[1].tensor.set_grad(tg::full_like(parameters[1].tensor, INFINITY));
  try {
    clip_gradients(model, 1, 7, 0);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    expect_contains(error.what(), "step 7: the gradient norm is inf");
    expect_contains(error.what(), "fault is " + parameters[1].name + " (its gradient");
  }
  EXPECT_TRUE(tg::equal(parameters[0].tensor.grad(), tg::ones_like(parameters[0].tensor)));
}

TEST(ModelFile, AVocabularyThatRepeatsACharacterIsRefused) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("toy_lm-repeats-" + std::to_string(::getpid()))).string();
  const Gpt model({.vocabulary = 3, .context = 8, .layers = 1, .heads = 2, .width = 8});
  for (const char* characters : {"abca", "aabc", "cba"}) {
    tg::save_safetensors(
        path, model.state_dict(),
        {{"vocabulary", characters}, {"context", "8"}, {"layers", "1"}, {"heads", "2"}, {"width", "8"}});
    expect_contains(message_of([&] { load_model(path); }), "each character once");
  }
  std::filesystem::remove(path);
}

TEST(ModelFile, RoundTripKeepsModelAndVocabulary) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("toy_lm-model-" + std::to_string(::getpid()))).string();
  tg::manual_seed(3);
  const Vocabulary vocabulary(U"abc\n\u00e9");
  const Gpt model({.vocabulary = 5, .context = 8, .layers = 1, .heads = 2, .width = 8});
  save_model(path, model, vocabulary);
  const SavedModel loaded = load_model(path);
  std::filesystem::remove(path);
  EXPECT_EQ(loaded.vocabulary.characters(), vocabulary.characters());
  const tg::Tensor ids = tg::from_vector(std::vector<std::int64_t>{0, 1, 2, 3}, {1, 4});
  EXPECT_TRUE(tg::equal(loaded.model.forward(ids), model.forward(ids)));
}

}  // namespace
}  // namespace toy_lm
