// Pictures of attention weights as text.
#include <gtest/gtest.h>

#include <cmath>
#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tapegrad {
namespace {

const std::vector<std::string> kWords = {"The", "cat", "sat", "down"};

TEST(AttentionMap, TableHasLabelsAndSums) {
  const Tensor weights = tensor({{1.0, 0.0}, {0.25, 0.5}});
  EXPECT_EQ(nn::attention_table(weights, {"on", "off"}),
            "        on    off    sum\n"
            " on  1.000  0.000  1.000\n"
            "off  0.250  0.500  0.750\n");
  EXPECT_EQ(nn::attention_table(weights),
            "       0      1    sum\n"
            "0  1.000  0.000  1.000\n"
            "1  0.250  0.500  0.750\n");
  ::testing::internal::CaptureStdout();
  nn::print_attention(weights.transpose(0, 1));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), nn::attention_table(weights.transpose(0, 1)));
}

TEST(AttentionMap, TheLastQueryStandsBesideTheLastKey) {
  const std::string text = nn::attention_table(tensor({{0.1, 0.2, 0.3, 0.4}}), kWords);
  EXPECT_EQ(text,
            "        The    cat    sat   down    sum\n"
            "down  0.100  0.200  0.300  0.400  1.000\n");
}

TEST(AttentionMap, BlocksShowEachShade) {
  const Tensor weights = tensor({{0.0, 0.01, 0.02, 0.1, 0.25, 0.5}});
  EXPECT_EQ(nn::attention_blocks(weights, {"a", "b", "c", "d", "e", "f"}),
            "  a b c d e f \n"
            "f   ··░░▒▒▓▓██\n");
  EXPECT_EQ(nn::attention_blocks(weights, {"a", "b", "c", "d", "e", "f"}, 8),  // one column to a key
            "  abcdef\n"
            "f  ·░▒▓█\n");
  EXPECT_EQ(nn::attention_blocks(weights, {"a", "b", "c", "d", "e", "f"}, 6),
            "  abcd\n"
            "f  ·░▒\n"
            "keys 5 to 6 of 6:\n"
            "  ef\n"
            "f ▓█\n");
  EXPECT_EQ(nn::attention_blocks(tensor({{1.0, 0.0}, {0.1, 0.9}}), {"on", "off"}),
            "    on  off \n"
            " on ████    \n"
            "off ▒▒▒▒████\n");
}

TEST(AttentionMap, NaNIsNotAWeight) {
  EXPECT_EQ(nn::attention_blocks(full({1, 2}, std::numeric_limits<double>::quiet_NaN())), "  0 1 \n1 ????\n");
}

TEST(AttentionMap, NoLineIsLongerThanTheTerminal) {
  const std::vector<std::string> tokens(200, "x");
  const std::string text = nn::attention_blocks(full({200, 200}, 0.01), tokens);
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }), 80) << line;
  }
}

TEST(AttentionMap, TokensThatCannotBeSeenGetSigns) {
  const std::string text = nn::attention_blocks(zeros({7, 7}), {" ", "\n", "\t", "\x1b", "\u009b", "\u00e9", "\u6f22"});
  EXPECT_EQ(text.substr(0, text.find('\n')), "   ␣ ↵ ␉ ␛ � \u00e9 \u6f22");
}

TEST(AttentionMap, Statistics) {
  const nn::HeadStatistics uniform = nn::head_statistics(full({4, 4}, 0.25));
  EXPECT_NEAR(uniform.entropy, std::log(4.0), 1e-12);
  EXPECT_NEAR(uniform.mean_distance, (6 + 4 + 4 + 6) / 16.0, 1e-12);
  EXPECT_NEAR(uniform.first_share, 0.25, 1e-12);
  const nn::HeadStatistics self = nn::head_statistics(eye(4));
  EXPECT_EQ(self.entropy, 0);
  EXPECT_EQ(self.mean_distance, 0);
  EXPECT_EQ(self.first_share, 0.25);
  // One query beside the last of three keys.
  const nn::HeadStatistics last = nn::head_statistics(tensor({{1.0, 0.0, 0.0}}));
  EXPECT_EQ(last.mean_distance, 2);
  EXPECT_EQ(last.first_share, 1);
  EXPECT_EQ(nn::head_statistics(zeros({2, 3})).entropy, 0);
  EXPECT_EQ(nn::head_statistics(zeros({0, 3})).mean_distance, 0);
}

TEST(AttentionMap, Errors) {
  EXPECT_NE(error_of([] {
              nn::attention_table(zeros({2, 4, 4}));
            }).find("got [2, 4, 4]; select an item"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              nn::attention_table(zeros({4, 4}), {"a", "b"});
            }).find("tokens must name 4 positions"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              nn::attention_blocks(zeros({4, 4}), kWords, 8);
            }).find("columns must hold"),
            std::string::npos);
  EXPECT_THROW(nn::write_attention_html("page.html", {}, kWords), ShapeError);
  EXPECT_THROW(nn::write_attention_html("page.html", {zeros({4, 4})}, kWords), ShapeError);
  EXPECT_THROW(nn::write_attention_html("page.html", {zeros({1, 4, 4})}, {"a"}), ShapeError);
  EXPECT_THROW(nn::write_attention_html("page.html", {full({1, 4, 4}, NAN)}, kWords), ValueError);
  EXPECT_THROW(nn::write_attention_html("/no/such/folder/page.html", {zeros({1, 4, 4})}, kWords), FileError);
}

}  // namespace
}  // namespace tapegrad
