// tapegrad_inspect: what it prints, and its exit codes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tapegrad/tapegrad.hpp>

namespace {

namespace tg = tapegrad;

class Inspect : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Exit code; the output is in the files "stdout" and "stderr".
  int run(const std::string& arguments) const {
    const std::string command = "cd '" + folder_ + "' && '" TAPEGRAD_EXAMPLES "/tapegrad_inspect' " + arguments;
    const int status = std::system((command + " > stdout 2> stderr < /dev/null").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void save() const {
    tg::save_safetensors(path("model"),
                         {{"layer.weight", tg::ones({300, 20})}, {"id\n", tg::tensor({1, 2}, tg::int64)}},
                         {{"step", "7\x1b[2J"}});
  }

  const std::string folder_ =
      (std::filesystem::temp_directory_path() / ("tapegrad-inspect-" + std::to_string(::getpid()))).string();
};

TEST_F(Inspect, ListsTensorsMetadataAndTotals) {
  save();
  ASSERT_EQ(run("model"), 0) << read("stderr");
  EXPECT_EQ(read("stdout").substr(0, read("stdout").rfind(';')),
            "layer.weight  F32   [300, 20]           24.0 kB\n"
            "id\\n          I64   [2]                    16 B\n"
            "metadata step: 7\\u001b[2J\n"
            "2 tensors, 6002 elements");
}

TEST_F(Inspect, LettersAreShownAndControlsAreNot) {
  const std::string greek = "\u03b1\u03b2\U0001f600", controls = "a\x7f\u009b2J\u202e\u2028\r";
  std::string eighty_two;
  for (int i = 0; i < 41; ++i) eighty_two += "\u00e9";
  tg::save_safetensors(path("model"), {{"caf\u00e9", tg::ones({1})}},
                       {{"a", greek}, {"b", controls}, {"c", eighty_two}});
  ASSERT_EQ(run("model"), 0) << read("stderr");
  const std::string output = read("stdout");
  for (const std::string& part : {std::string("caf\u00e9  F32"), "metadata a: " + greek + "\n",
                                  std::string("metadata b: a\\u007f\\u009b2J\\u202e\\u2028\\r\n"),
                                  "metadata c: " + eighty_two.substr(0, 40) + "..." + eighty_two.substr(42) + "\n"})
    EXPECT_NE(output.find(part), std::string::npos) << part << " in\n" << output;
}

TEST_F(Inspect, OutputThatCanNotBeWrittenIsAFailure) {
  save();
  EXPECT_EQ(run("model > /dev/full; exit $? #"), 1);
}

TEST_F(Inspect, ACutFileIsListedAndItsFaultNamed) {
  save();
  const std::string whole = read("model");
  std::ofstream(path("model"), std::ios::binary) << whole.substr(0, whole.size() - 17);
  EXPECT_EQ(run("model"), 1);
  EXPECT_NE(read("stdout").find("layer.weight  F32   [300, 20]"), std::string::npos) << read("stdout");
  EXPECT_NE(read("stderr").find("fault: load_safetensors: 'model': tensor \"layer.weight\": data_offsets"),
            std::string::npos)
      << read("stderr");
  EXPECT_EQ(run("missing"), 1);
  EXPECT_NE(read("stderr").find("'missing'"), std::string::npos);
  EXPECT_GT(run(""), 1);
}

TEST_F(Inspect, ShowsNpyFiles) {
  tg::save_npy(path("x.npy"), tg::zeros({2, 3}, tg::float64));
  EXPECT_EQ(run("x.npy"), 0);
  EXPECT_EQ(read("stdout"), "float64 [2, 3]; the file has 176 B\n");
  std::ofstream(path("x.npy"), std::ios::binary | std::ios::app) << 'x';
  EXPECT_EQ(run("x.npy"), 1);
  EXPECT_NE(read("stderr").find("fault: load_npy: 'x.npy'"), std::string::npos) << read("stderr");
}

}  // namespace
