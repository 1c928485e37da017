// The report of a run: what it remembers, and what a browser shows of it.
#include <unistd.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <tapegrad/tapegrad.hpp>

#include "browser.hpp"
#include "toy_lm/report.hpp"

namespace toy_lm {
namespace {

using nlohmann::json;

json history_of(std::int64_t steps) {
  History history;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const auto value = static_cast<double>(step);
    history.add({.step = step, .loss = value, .lr = 2 * value, .gradient_norm = 3.0, .tokens_per_second = -value});
  }
  return json::parse(history.to_json());
}

TEST(History, RemembersFewStepsOneByOne) {
  const json records = history_of(512).at("records");
  ASSERT_EQ(records.size(), 512u);
  EXPECT_EQ(records[6], json({7, 7.0, 14.0, 3.0, -7.0}));
}

TEST(History, ManyStepsBecomeMeansOfNeighbours) {
  const std::int64_t steps = 2001;
  const json records = history_of(steps).at("records");
  ASSERT_EQ(records.size(), 501u);  // four steps each, and one
  for (std::size_t i = 0; i < 500; ++i) {
    const auto last = static_cast<double>(4 * i + 4);
    EXPECT_EQ(records[i][0], 4 * i + 4);
    EXPECT_NEAR(records[i][1].get<double>(), last - 1.5, 1e-9);
    EXPECT_NEAR(records[i][2].get<double>(), 2 * last - 3, 1e-9);
    EXPECT_EQ(records[i][3], 3.0);
  }
  EXPECT_EQ(records[500], json({steps, 2001.0, 4002.0, 3.0, -2001.0}));
}

TEST(History, GoesOnFromItsText) {
  History whole, first;
  const auto add = [](History& history, std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step <= to; ++step)
      history.add({.step = step,
                   .loss = 1.0 / static_cast<double>(step),
                   .lr = 1e-3,
                   .gradient_norm = 0.1,
                   .tokens_per_second = 9.5});
  };
  add(whole, 1, 700);
  add(first, 1, 333);
  whole.add_sample(300, "caf\u00e9\n");
  first.add_sample(300, "caf\u00e9\n");
  History second = History::from_json(first.to_json());
  add(second, 334, 700);
  EXPECT_EQ(second.to_json(), whole.to_json());
  for (const char* text : {"", "{}", "[1]", R"({"records":[[1]],"width":1,"filled":1,"samples":[]})"})
    EXPECT_THROW(History::from_json(text), tg::ValueError) << text;
}

class ReportPage : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void train(const std::string& arguments, const std::string& sizes = "--heads 2 --width 16") const {
    ASSERT_EQ(run_in(folder_, "'" TAPEGRAD_TOY_LM "' train --layers 2 --context 8 --batch 4 --out run " + sizes + " " +
                                  arguments),
              0)
        << read_bytes(path("stderr"));
  }
  json seen(const std::string& window = "1280,900") const {
    return seen_by_browser(folder_, path("run/report.html"), "", R"(
      const text = id => document.getElementById(id).textContent;
      const texts = query => [...document.querySelectorAll(query)].map(element => element.textContent);
      const points = id => document.querySelector(`#${id} polyline`).getAttribute('points').split(' ').length;
      document.querySelector('#loss svg').dispatchEvent(new PointerEvent('pointermove', {clientX: 1e4, clientY: 9}));
      const result = {
        dots: [...document.querySelectorAll('#loss .dot')].map(dot => [+dot.dataset.step, +dot.dataset.value]),
        last: document.querySelector('#loss .value').textContent, key: texts('#loss .key span'), tip: text('tip'), title: text('title'),
        floors: document.querySelectorAll('#loss .floor').length, points: ['loss', 'lr', 'norm', 'speed'].map(points),
        rows: texts('#evaluations tbody tr td:first-child'), samples: texts('#evaluations .sample'),
        maps: document.querySelectorAll('#heads canvas').length, settings: text('settings'), machine: text('machine'),
        reading: text('reading'), note: text('lr'), of: text('of'),
        ticks: ['loss', 'lr', 'norm', 'speed'].map(id => texts(`#${id} text[text-anchor=end]`)), steps: texts('#loss text[text-anchor=middle]'),
        single: document.querySelectorAll('.point').length, width: innerWidth,
        outside: [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth).length +
          [...document.querySelectorAll('section *')].filter(e => e.getBoundingClientRect().right > e.closest('section').getBoundingClientRect().right).length,
        strange: [...document.querySelectorAll('svg *')].filter(e => /NaN|undefined|Infinity/.test(e.outerHTML)).length};)",
                           window);
  }

  const std::string folder_ =
      (std::filesystem::temp_directory_path() / ("tapegrad-report-" + std::to_string(::getpid()))).string();
};

TEST_F(ReportPage, EndsWhereTheMetricsEnd) {
  train("--steps 50 --eval-every 20 --recipe best --seed 7");
  const json page = seen();
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  std::istringstream metrics(read_bytes(path("run/metrics.csv")));
  std::string line;
  std::getline(metrics, line);
  std::vector<std::vector<double>> rows;
  while (std::getline(metrics, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream numbers(line);
    rows.emplace_back(std::istream_iterator<double>(numbers), std::istream_iterator<double>());
  }
  ASSERT_EQ(rows.size(), 3u);
  ASSERT_EQ(page["dots"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(page["dots"][i], json({rows[i][0], rows[i][2]}));
  EXPECT_EQ(page["last"], fmt::format("{:.3f}", rows[2][2]));
  EXPECT_EQ(page["rows"], json({"50", "40", "20"}));
  EXPECT_EQ(page["points"], json({50, 50, 50, 50}));
  EXPECT_EQ(page["tip"].get<std::string>().substr(0, 8), "step 50\n");
  EXPECT_EQ(page["floors"], 1);
  EXPECT_EQ(page["maps"], 4);
  EXPECT_EQ(page["strange"], 0);
  for (const auto& [where, part] : {std::pair("settings", "--seed7"), std::pair("settings", "--optimizermuon"),
                                    std::pair("machine", "processor"), std::pair("title", "built-in corpus")})
    EXPECT_NE(page[where].get<std::string>().find(part), std::string::npos) << part;
  for (const json& sample : page["samples"]) EXPECT_FALSE(sample.get<std::string>().empty());
}

TEST_F(ReportPage, AnyTextStaysText) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "</script><b>&amp;\"'`\\\u6f22\x01</b><!--\n";
  std::ofstream(path("<i>&.txt"), std::ios::binary) << text;
  train("--steps 3 --text '<i>&.txt'");
  std::string bytes = read_bytes(path("run/report.html"));
  const std::string svg = "http://www.w3.org/2000/svg";  // a name, which nothing loads
  bytes.replace(bytes.find(svg), svg.size(), "");
  for (const char* reference : {"http:", "https:", "src=", "href=", "@import", "url(", "fetch("})
    EXPECT_EQ(bytes.find(reference), std::string::npos) << reference;
  const json page = seen();
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  EXPECT_EQ(page["title"], "toy_lm on <i>&.txt");
  EXPECT_EQ(page["floors"], 0);
  EXPECT_EQ(page["key"], json({"training", "validation"}));
  EXPECT_EQ(page["strange"], 0);
}

TEST_F(ReportPage, ALossOfZeroCanBeDrawn) {
  std::ofstream(path("a.txt")) << std::string(2000, 'a');
  train("--steps 1 --text a.txt");
  const json page = seen();
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  EXPECT_EQ(page["dots"], json::parse("[[1, 0]]"));
  EXPECT_EQ(page["steps"], json({"0", "1"}));
  EXPECT_EQ(page["single"], 4) << "a curve of one point";
  EXPECT_EQ(page["strange"], 0);
}

TEST_F(ReportPage, AResumedRunShowsAllOfItsSteps) {
  train("--steps 20 --eval-every 10");
  ASSERT_EQ(run_in(folder_, "'" TAPEGRAD_TOY_LM "' train --resume run --steps 30"), 0) << read_bytes(path("stderr"));
  const json page = seen();
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  EXPECT_EQ(page["points"][0], 30);
  EXPECT_EQ(page["rows"], json({"30", "20", "10"}));
  EXPECT_EQ(page["samples"].size(), 4u);  // with the column's name
}

TEST_F(ReportPage, LossesInANarrowRangeHaveAnAxis) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += fmt::format("{} ", i * i % 1999);
  std::ofstream(path("numbers.txt")) << text;
  train("--steps 4 --eval-every 2 --tokenizer bpe --vocabulary 400 --text numbers.txt");
  const json page = seen();
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  ASSERT_GT(page["dots"][1][1], 5.0);
  ASSERT_LT(page["dots"][0][1], 7.0);
  for (const json& labels : page["ticks"]) {
    EXPECT_GE(labels.size(), 3u) << page["ticks"];
    EXPECT_EQ(std::set<json>(labels.begin(), labels.end()).size(), labels.size()) << page["ticks"];
  }
  EXPECT_EQ(page["steps"], json({"0", "1", "2", "3", "4"}));
}

TEST_F(ReportPage, FitsIntoWindowsOfAnyWidth) {
  train("--steps 2", "--heads 16 --width 32");
  for (const int width : {1280, 700, 500}) {
    const json page = seen(fmt::format("{},900", width));
    if (page.is_null()) GTEST_SKIP() << kNoBrowser;
    EXPECT_EQ(page["width"], width);
    EXPECT_EQ(page["maps"], 32);
    EXPECT_EQ(page["outside"], 0) << "at " << width;
  }
}

TEST_F(ReportPage, SaysWhatWasLearntAndWhoseLossAndRateItShows) {
  std::ofstream(path("letters.txt")) << std::string(2000, 'a') + std::string(2000, 'b');
  train("--steps 4 --eval-every 2 --text letters.txt --recipe best");
  ASSERT_EQ(run_in(folder_, "cd / && '" TAPEGRAD_TOY_LM "' train --steps 6 --resume '" + path("run") + "'"), 0)
      << read_bytes(path("stderr"));
  const json page = seen();
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  EXPECT_EQ(page["title"], "toy_lm on letters.txt");
  EXPECT_EQ(page["key"], json({"training", "validation, of the averaged weights"}));
  for (const auto& [where, part] :
       {std::pair("settings", "--text" + path("letters.txt")),
        std::pair("note", std::string("Muon, for the blocks’ matrices; AdamW’s, for the rest, "
                                      "has its peak at 0.004")),
        std::pair("of", std::string("of the averaged weights"))})
    EXPECT_NE(page[where].get<std::string>().find(part), std::string::npos) << page[where];
  EXPECT_EQ(page["settings"].get<std::string>().find("--vocabulary"), std::string::npos) << "it has no use here";
}

}  // namespace
}  // namespace toy_lm
