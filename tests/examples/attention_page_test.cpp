// The page of attention maps as a browser shows it, and the program that writes it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <tapegrad/tapegrad.hpp>

#include "browser.hpp"
#include "toy_lm/attention.hpp"
#include "toy_lm/corpus.hpp"
#include "toy_lm/model_file.hpp"

namespace toy_lm {
namespace {

using nlohmann::json;

const auto read = read_bytes;

class AttentionPage : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  int run(const std::string& command) const { return run_in(folder_, command); }
  /// Points at each cell in turn and notes what the page then says of it.
  json seen(const std::string& page, const std::string& hash) const {
    return seen_by_browser(folder_, page, hash, R"(
      const text = id => document.getElementById(id).textContent;
      const cells = [...document.querySelectorAll('#map td[data-k]')].map(cell => {
        cell.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: 9, clientY: 9}));
        return {q: +cell.dataset.q, k: +cell.dataset.k, text: cell.textContent, tip: text('tip'), reading: text('reading'),
                blocked: cell.classList.contains('blocked')};
      });
      const result = {cells, title: text('title'), entropy: text('entropy'), distance: text('distance'),
        first: text('first'), labels: [...document.querySelectorAll('#map thead th')].map(name => name.textContent),
        rows: [...document.querySelectorAll('#map tbody th')].map(name => name.textContent),
        layers: document.querySelectorAll('#layer option').length, heads: document.querySelectorAll('#head option').length,
        pictures: document.querySelectorAll('#heads canvas').length};)");
  }
  static void expect_cells(const json& page, const tg::Tensor& map) {
    const std::int64_t keys = map.size(1);
    ASSERT_EQ(page["cells"].size(), static_cast<std::size_t>(map.numel()));
    const std::vector<double> weights = map.to_vector<double>();
    for (const json& cell : page["cells"]) {
      const auto place = static_cast<std::size_t>(cell["q"].get<std::int64_t>() * keys + cell["k"].get<std::int64_t>());
      const double weight = weights[place];
      const std::string tip = cell["tip"], number = tip.substr(tip.rfind(' ') + 1);
      EXPECT_EQ(cell["blocked"], weight == 0) << tip;
      EXPECT_NEAR(std::stod(number), weight, 0.5e-4 + 1e-6) << tip;
      if (weight > 0 && cell["text"] != "") {
        EXPECT_NEAR(std::stod(cell["text"].get<std::string>()), weight, 0.5e-2 + 1e-6);
      }
    }
  }

  const std::string folder_ =
      (std::filesystem::temp_directory_path() / ("tapegrad-page-" + std::to_string(::getpid()))).string();
};

/// [heads, length, length], causal.
tg::Tensor some_maps(std::int64_t heads, std::int64_t length) {
  const tg::Tensor x = tg::randn({heads, length, 8});
  return nn::scaled_dot_product_attention(x, tg::randn({heads, length, 8}), x, {.is_causal = true}).weights;
}

TEST_F(AttentionPage, NeedsNothingElse) {
  nn::write_attention_html(path("page.html"), {some_maps(2, 3)}, {"a", "b", "c"});
  const std::string page = read(path("page.html"));
  EXPECT_EQ(page.substr(0, 15), "<!DOCTYPE html>");
  for (const char* reference : {"http:", "https:", "src=", "href=", "@import", "url(", "fetch("})
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
}

TEST_F(AttentionPage, ShowsTheTensorsNumbers) {
  tg::manual_seed(3);
  const tg::Tensors layers = {some_maps(2, 5), some_maps(3, 5)};
  nn::write_attention_html(path("page.html"), layers, {"one", "two", "three", "four", "five"});
  const json page = seen(path("page.html"), "2.3");
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  const tg::Tensor map = layers[1].select(0, 2);
  expect_cells(page, map);
  EXPECT_EQ(page["title"], "Layer 2, head 3: each row is a query, each column a key");
  EXPECT_EQ(page["layers"], 2);
  EXPECT_EQ(page["heads"], 3);
  EXPECT_EQ(page["pictures"], 5);
  EXPECT_EQ(page["labels"], json({"one", "two", "three", "four", "five"}));
  EXPECT_EQ(page["cells"][5]["tip"].get<std::string>().substr(0, 33), "‘two’ (2) → ‘one’ (1): ");
  EXPECT_EQ(page["cells"][1]["tip"], "‘one’ (1) → ‘two’ (2): exactly 0");
  EXPECT_EQ(page["cells"][24]["reading"], "What ‘five’, query 5, looks at");
  const nn::HeadStatistics statistics = nn::head_statistics(map);
  EXPECT_EQ(page["entropy"], fmt::format("{:.2f} of {:.2f} nats", statistics.entropy, std::log(5.0)));
  EXPECT_EQ(page["distance"], fmt::format("{:.2f} tokens", statistics.mean_distance));
  EXPECT_EQ(page["first"], fmt::format("{:.1f} %", 100 * statistics.first_share));
}

TEST_F(AttentionPage, AnyTextStaysText) {
  const std::vector<std::string> tokens = {"</script>", "<b>&amp;", "\"'`",   "\\",   "\n",
                                           " ",         "\u00e9",   "\u6f22", "\x01", "\xff"};
  nn::write_attention_html(path("page.html"), {some_maps(1, 10)}, tokens);
  const json page = seen(path("page.html"), "9.9");  // past the end: the last of each
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  const json expected = {"</script>", "<b>&amp;", "\"'`", "\\", "↵", "␣", "\u00e9", "\u6f22", "␁", "\ufffd"};
  EXPECT_EQ(page["labels"], expected);
  EXPECT_EQ(page["rows"], expected);
}

TEST_F(AttentionPage, FewQueriesAndManyKeys) {
  const tg::Tensor weights =
      nn::scaled_dot_product_attention(tg::randn({1, 2, 8}), tg::randn({1, 5, 8}), tg::randn({1, 5, 8})).weights;
  nn::write_attention_html(path("page.html"), {weights}, {"a", "b", "c", "d", "e"});
  const json page = seen(path("page.html"), "");
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  expect_cells(page, weights.select(0, 0));
  EXPECT_EQ(page["rows"], json({"d", "e"}));
}

/// A model without training, in the folder `from`.
Gpt saved_model(const std::string& from) {
  tg::manual_seed(5);
  const Vocabulary vocabulary(U" abc<&\"\n\u00e9");
  Gpt model({.vocabulary = vocabulary.size(), .context = 12, .layers = 2, .heads = 2, .width = 16});
  for (const nn::NamedTensor& entry : model.named_parameters())
    if (entry.tensor.rank() == 2) nn::init::normal_(entry.tensor, 0.0, 0.5);
  std::filesystem::create_directories(from);
  save_model(from + "/model.safetensors", model, vocabulary);
  model.eval();
  return model;
}

TEST_F(AttentionPage, MapsAreThoseOfTheModelsInputs) {
  const Gpt model = saved_model(path("model"));
  const std::vector<std::int64_t> tokens = {1, 4, 2, 3, 1};
  const tg::NoGradGuard no_grad;
  for (int time = 0; time < 2; ++time) {  // hooks that stayed would show the second time
    const tg::Tensors maps = attention_maps(model, tokens);
    ASSERT_EQ(maps.size(), 2u);
    tg::Tensor first_output;
    auto hook =
        model.blocks()[0].register_forward_hook([&](const nn::Module&, const tg::Tensor& x) { first_output = x; });
    model.forward(tg::from_vector(tokens, {1, 5}));
    hook.remove();
    const nn::TransformerBlock& second = model.blocks()[1];
    const tg::Tensor expected =
        second.attention().attention_weights(second.norm1()(first_output), {.is_causal = true}).select(0, 0);
    EXPECT_EQ(tg::amax(tg::abs(maps[1] - expected)).item(), 0);
    EXPECT_EQ(maps[0].shape(), tg::Shape({2, 5, 5}));
  }
}

TEST_F(AttentionPage, ToyLmShowsEveryHead) {
  const Gpt model = saved_model(path("model"));
  ASSERT_EQ(run("printf 'skipped<&\"\\na\u00e9 b<&\"c\\nab' > prompt; '" TAPEGRAD_TOY_LM
                "' attention --from model --prompt \"$(sed 's/skipped/abc/' prompt)\" --html page.html"),
            0)
      << read(path("stderr"));
  const std::string output = read(path("stdout"));
  for (const char* part : {"the last 12 of 18 characters", "layer 1, head 1: entropy", "layer 2, head 2: entropy",
                           "\n  ↵ a \u00e9 ␣ b < & \" c ↵ a b \n"})
    EXPECT_NE(output.find(part), std::string::npos) << part << " in\n" << output;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }), 80) << line;
  const json page = seen(path("page.html"), "2.1");
  if (page.is_null()) GTEST_SKIP() << kNoBrowser;
  const Vocabulary vocabulary(U" abc<&\"\n\u00e9");
  const auto tokens = vocabulary.encode(U"\na\u00e9 b<&\"c\nab", "test");
  expect_cells(page, attention_maps(model, tokens)[1].select(0, 0));
  EXPECT_EQ(page["labels"][5], "<");
}

TEST_F(AttentionPage, ToyLmRefusesWhatItCannotShow) {
  saved_model(path("model"));
  for (const char* arguments : {"--from nowhere --prompt a", "--from model", "--from model --prompt z"}) {
    EXPECT_EQ(run("'" TAPEGRAD_TOY_LM "' attention " + std::string(arguments)), 2) << arguments;
    EXPECT_EQ(read(path("stdout")), "");
  }
  EXPECT_EQ(run("'" TAPEGRAD_TOY_LM "' attention --from model --prompt ab --html /no/such/folder/page.html"), 1);
}

TEST_F(AttentionPage, TrainingReportsOnItsHeads) {
  ASSERT_EQ(
      run("'" TAPEGRAD_TOY_LM "' train --layers 2 --heads 2 --width 16 --context 8 --batch 2 --steps 2 --out out"), 0)
      << read(path("stderr"));
  const std::string output = read(path("stdout"));
  SavedModel saved = load_model(path("out/model.safetensors"));
  saved.model.eval();
  const std::vector<std::int64_t> text = load_corpus({}, 1337, 8).split.validation;
  const std::string report = head_report(saved.model, {text.begin(), text.begin() + 8});
  EXPECT_EQ(std::count(report.begin(), report.end(), '%'), 4) << report;
  EXPECT_NE(output.find("\n" + report + "\n"), std::string::npos) << report << "\nin\n" << output;
}

TEST_F(AttentionPage, HeatmapAsSvg) {
  nn::write_heatmap_svg(path("map.svg"), tg::tensor({{0.0, 2.0, 0.5}, {-1.0, 0.0, 1.0}}));
  EXPECT_EQ(read(path("map.svg")),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 3 2\" width=\"36\" height=\"24\">"
            "<rect width=\"3\" height=\"2\" fill=\"#fff\"/>\n"
            "<rect x=\"1\" y=\"0\" width=\"1\" height=\"1\" fill-opacity=\"1\"/>\n"
            "<rect x=\"2\" y=\"0\" width=\"1\" height=\"1\" fill-opacity=\"0.25\"/>\n"
            "<rect x=\"2\" y=\"1\" width=\"1\" height=\"1\" fill-opacity=\"0.5\"/>\n</svg>\n");
  EXPECT_THROW(nn::write_heatmap_svg(path("map.svg"), tg::zeros({2})), tg::ShapeError);
  EXPECT_THROW(nn::write_heatmap_svg(path("map.svg"), tg::full({1, 1}, NAN)), tg::ValueError);
}

TEST_F(AttentionPage, TheTourPrintsTheRightNumbers) {
  ASSERT_EQ(run("'" TAPEGRAD_EXAMPLES "/attention_tour'"), 0);
  const std::string output = read(path("stdout"));
  for (const char* part :
       {"width 128, 8 heads of width 16", "input [2, 32, 128] -> output [2, 32, 128]", "8 parameter tensors",
        "mask [2, 32, 32] -> output [2, 32, 128]", "weights [1, 4, 4, 4]", "        The    cat    sat   down    sum\n",
        " The  1.000  0.000  0.000  0.000  1.000\n", "largest weight above the diagonals of all heads: 0\n",
        "  0.69   0.81   0.41   0.41\n", " 0.345  0.405  0.205  0.205\n", " 0.263  0.279  0.229  0.229\n",
        "scaled_dot_product_attention gives  0.263  0.508\n", "largest difference: 0e+00"})
    EXPECT_NE(output.find(part), std::string::npos) << part << " in\n" << output;
  std::istringstream lines(output);
  int rows = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.size() == 39 && line.substr(32) == "  1.000") ++rows;
  EXPECT_EQ(rows, 8) << output;
}

TEST_F(AttentionPage, TheProfilePrintsEveryTable) {
  ASSERT_EQ(run("'" TAPEGRAD_EXAMPLES "/attention_profile' --quick --iterations 1 --warmup 0"), 0);
  const std::string output = read(path("stdout"));
  for (const char* part : {"8454144", "forward ms", "composed peak", "bottleneck: ", "speed-up", "best use of threads",
                           "weights of attention: 4.00 MB a layer", "147456.00 MB in all"})
    EXPECT_NE(output.find(part), std::string::npos) << part << " in\n" << output;
  EXPECT_NE(read(path("stderr")).find("timing: 3 runs, "), std::string::npos);
  ASSERT_EQ(run("'" TAPEGRAD_EXAMPLES "/attention_profile' --quick --csv --fused --iterations 1 --warmup 0"), 0);
  EXPECT_NE(read(path("stdout")).find("\n256,65536,256,8454144\n"), std::string::npos);
  EXPECT_EQ(run("'" TAPEGRAD_EXAMPLES "/attention_profile' --iterations 0"), 2);
  EXPECT_NE(read(path("stderr")).find("--iterations: must be a whole number from 1 to "), std::string::npos);
}

}  // namespace
}  // namespace toy_lm
