// The programs of one file, in a quick form: what they say has been learnt, and that it does not depend on threads.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <regex>
#include <string>

namespace {

struct Outcome {
  int code = -1;
  std::string text;  // of stdout and stderr

  /// The number that the pattern's only group finds; a failure if there is none.
  double number(const std::string& pattern) const {
    std::smatch match;
    if (std::regex_search(text, match, std::regex(pattern))) return std::stod(match[1]);
    ADD_FAILURE() << "nothing like \"" << pattern << "\" in\n" << text;
    return NAN;
  }
};

Outcome run(const std::string& command, const std::string& environment = "") {
  Outcome outcome;
  FILE* pipe = ::popen((environment + " '" TAPEGRAD_EXAMPLES "'/" + command + " 2>&1 < /dev/null").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), count);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

TEST(Programs, XorSeparatesWhatNoLineDoes) {
  const Outcome outcome = run("xor");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_LT(outcome.number(R"(step 300  loss (\S+))"), 0.01);
  EXPECT_LT(outcome.number(R"( 0 0      0 +(\S+))"), 0.05);
  EXPECT_GT(outcome.number(R"( 0 1      1 +(\S+))"), 0.95);
  EXPECT_GT(outcome.number(R"( 1 0      1 +(\S+))"), 0.95);
  EXPECT_LT(outcome.number(R"( 1 1      0 +(\S+))"), 0.05);
}

TEST(Programs, RegressionLeavesTheNoise) {
  const Outcome outcome = run("regression");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NEAR(outcome.number(R"(epoch 100 .* validation (\S+))"), 0.0225, 0.0035);
  EXPECT_LT(outcome.number(R"(the fit is (\S+) away)"), 0.05);
}

TEST(Programs, CustomOperationHoldsAndItsSlipIsFound) {
  const Outcome outcome = run("custom_op");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NEAR(outcome.number(R"(- 1000 = ([0-9.]+))"), 0.693147, 2e-6);
  EXPECT_NE(outcome.text.find("gradients:              gradcheck passed"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("gradients of gradients: gradcheck passed"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("gradcheck failed: function that ends in slipped: wrong value, 12 of 192"),
            std::string::npos)
      << outcome.text;
}

TEST(Programs, NewtonIsDoneWhereDescentIsNot) {
  const Outcome outcome = run("hessian");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_LT(outcome.number(R"(Newton 6  f = (\S+))"), 1e-15);
  EXPECT_GT(outcome.number(R"(10000 steps of gradient descent  f = (\S+))"), 1e-6);
  EXPECT_NE(outcome.text.find("[[ 802., -400.],"), std::string::npos) << outcome.text;
  EXPECT_LT(outcome.number(R"(Newton 7, .* gradient (\S+) \|)"), 1e-9);
  EXPECT_GT(outcome.number(R"(Newton 7, .* sweeps: \S+ (\S+))"), 1e-4);
}

TEST(Programs, ReverseWritesBackwards) {
  const Outcome outcome = run("reverse --steps 300");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_GT(outcome.number(R"((\S+) % of 1000 fresh)"), 99.0);
}

TEST(Programs, GapsAreFilledInFromBothSides) {
  const Outcome outcome = run("fill_in");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_GT(outcome.number(R"((\S+) % of the gaps)"), 99.0);
}

TEST(Programs, QuestionsAboutAttentionAreMeasured) {
  const Outcome outcome = run("attention_questions --quick");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(outcome.number(R"(n =   256: weights alone\s+(\S+) MB)"), 2.0);
  EXPECT_GT(outcome.number(R"(n =   256: weights alone\s+2.0 MB, measured\s+(\S+) MB)"), 2.0);
  EXPECT_LT(outcome.number(R"(n =   256: .* never stored\s+(\S+) MB)"), 2.0);
  EXPECT_LT(outcome.number(R"(largest difference in float64: (\S+))"), 1e-12);
  EXPECT_EQ(outcome.number(R"(8 x  64: (\d+) parameters)"), outcome.number(R"(1 x 512: (\d+) parameters)"));
}

TEST(Programs, DigitsAreReadAfterAFewBatches) {
  const Outcome outcome = run("digits --steps 300");  // too few for 98 %, which its exit code says
  EXPECT_EQ(outcome.code, 1) << outcome.text;
  EXPECT_GT(outcome.number(R"((\S+) % of 2000 fresh)"), 85.0);
  EXPECT_GT(outcome.number(R"(step  100/300  loss \S+  (\S+) digits/s  \d+ s left)"), 0.0);
  EXPECT_GT(outcome.number(R"(the worst pair: \d is taken for \d, (\d+) times)"), 0.0);
}

TEST(Programs, AnyNumberOfThreadsGivesTheSame) {
  for (const char* program : {"reverse --steps 20", "digits --steps 20"}) {  // too few for a line that tells the time
    const Outcome one = run(program, "TAPEGRAD_NUM_THREADS=1");
    EXPECT_NE(one.text.find(" fresh "), std::string::npos) << one.text;
    EXPECT_EQ(one.text, run(program, "TAPEGRAD_NUM_THREADS=3").text);
  }
}

constexpr const char* kPrograms[] = {
    "xor",     "regression", "custom_op",      "hessian",           "fill_in",
    "reverse", "digits",     "attention_tour", "attention_profile", "attention_questions"};

TEST(Programs, WrongArgumentsEndWithOneLineThatSaysWhatIsExpected) {
  const std::string whole = "must be a whole number from ", most = " to 9223372036854775807; got ";
  const std::pair<std::string, std::string> wrong[] = {
      {"reverse --steps 0", "reverse: --steps: " + whole + "1" + most + "'0'"},
      {"digits --steps -1", "digits: --steps: " + whole + "1" + most + "'-1'"},
      {"digits --steps many", "digits: --steps: " + whole + "1" + most + "'many'"},
      {"digits --steps 0x10", "got '0x10'"},
      {"fill_in --seed ''", "fill_in: --seed: " + whole + "0" + most + "''"},
      {"fill_in --seed -1", "got '-1'"},
      {"reverse --seed 9223372036854775808", "got '9223372036854775808'"},
      {"reverse --steps", "--steps: must have a value; got none"},
      {"reverse --steps 2 --steps 3", "--steps: must have one value; got several"},
      {"reverse --speed 3", "arguments must be those that --help lists; got '--speed' '3'"},
      {"attention_profile --iterations ''", "--iterations: " + whole + "1" + most + "''"},
      {"attention_profile --quick=maybe", "--quick: must stand without a value; got one"},
      {"tapegrad_inspect", "file is required"}};
  for (const auto& [command, text] : wrong) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_NE(outcome.text.find(text + "; see "), std::string::npos) << outcome.text;
    EXPECT_EQ(outcome.text.find('\n'), outcome.text.size() - 1) << outcome.text;
  }
}

TEST(Programs, EachOneRefusesWhatItDoesNotKnowAndHasAHelp) {
  for (const std::string program : kPrograms) {
    const Outcome unknown = run(program + " --foo"), help = run(program + " --help");
    EXPECT_EQ(unknown.code, 2) << program;
    EXPECT_NE(unknown.text.find("got '--foo'; see " + program + " --help"), std::string::npos) << unknown.text;
    EXPECT_EQ(help.code, 0) << program;
    EXPECT_NE(help.text.find("Usage: " + program), std::string::npos) << help.text;
    const Outcome threads = run(program, "TAPEGRAD_NUM_THREADS=none");
    EXPECT_EQ(threads.code, 2) << program;
    EXPECT_NE(threads.text.find("TAPEGRAD_NUM_THREADS"), std::string::npos) << threads.text;
  }
}

TEST(Programs, OutputThatGoesNowhereIsAFailure) {
  for (const std::string command :
       {"xor", "xor --help", "custom_op", "attention_tour", "hessian", "fill_in --steps 1"}) {
    const Outcome outcome = run(command + " 3>&1 > /dev/full 2>&3 #");
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_NE(outcome.text.find("the output could not be written"), std::string::npos) << outcome.text;
  }
}

}  // namespace
