// What can be chosen for a run of the toy language model: optimizers, averages, batches in parts, blocks; and the
// evaluation beside the floor.
#include "toy_lm/recipe.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "browser.hpp"
#include "toy_lm/batches.hpp"
#include "toy_lm/generation.hpp"
#include "toy_lm/model_file.hpp"
#include "toy_lm/resume.hpp"

namespace toy_lm {
namespace {

GptConfig small(const std::string& blocks) {
  GptConfig config{.vocabulary = 7, .context = 12, .layers = 2, .heads = 2, .width = 16};
  config.blocks = blocks;
  return config;
}

std::vector<std::int64_t> counting(std::int64_t length) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < length; ++i) tokens.push_back(i % 7);
  return tokens;
}

TEST(Recipe, EveryOptimizerLearns) {
  const std::vector<std::int64_t> tokens = counting(200);
  for (const auto& [name, lr] : {std::pair("adamw", 1e-2), std::pair("muon", 1e-2), std::pair("sgd", 0.05),
                                 std::pair("adam", 1e-2), std::pair("lion", 2e-3), std::pair("rmsprop", 5e-3)})
    for (const char* blocks : {"gpt2", "modern"}) {
      tg::manual_seed(4);
      Gpt model(small(blocks));
      TrainOptions options;
      options.model = model.config();
      options.optimizer = name;
      options.lr = lr;
      const auto optimizer = make_optimizer(model, options);
      const double before = evaluate(model, tokens);
      for (int step = 0; step < 40; ++step) {
        const Batch batch = random_batch(tokens, 4, 12);
        optimizer->zero_grad();
        model.loss(batch.ids, batch.targets).backward();
        optimizer->step();
      }
      EXPECT_LT(evaluate(model, tokens), 0.8 * before) << name << ", " << blocks;
    }
}

TEST(Recipe, MuonStepsTheMatricesOfTheBlocksAlone) {
  for (const char* blocks : {"gpt2", "modern"}) {
    const Gpt model(small(blocks));
    TrainOptions options;
    options.optimizer = "muon";
    const auto optimizer = make_optimizer(model, options);
    std::size_t matrices = 0;
    for (const nn::NamedTensor& parameter : model.named_parameters())
      matrices += parameter.tensor.rank() == 2 && parameter.name.rfind("blocks.", 0) == 0;
    EXPECT_EQ(optimizer->groups()[0].parameters.size(), matrices);
    EXPECT_EQ(optimizer->lr(0), options.muon_lr);
    EXPECT_EQ(optimizer->lr(1), options.lr);
  }
}

TEST(Recipe, TheBestHasTheSizesOfTheDefaultsAndNoMoreParameters) {
  const TrainOptions defaults;
  TrainOptions best;
  use_best_recipe(best);
  EXPECT_EQ(best.steps, defaults.steps);
  EXPECT_EQ(best.batch, defaults.batch);
  EXPECT_EQ(best.model.context, defaults.model.context);
  GptConfig then = defaults.model, now = best.model;
  then.vocabulary = now.vocabulary = 65;
  EXPECT_LE(Gpt(now).num_parameters(), Gpt(then).num_parameters());
}

TEST(Model, ModernBlocksAreCausalAndFollowTheirCaches) {
  tg::manual_seed(8);
  const Gpt model(small("modern"));
  const auto ids = tg::from_vector(counting(12), {1, 12});
  const nn::LeakReport report = nn::check_causal(model, ids);
  EXPECT_TRUE(report) << report.to_string();
  const tg::NoGradGuard no_grad;
  std::vector<nn::KVCache> caches(2);
  model.next(ids.slice(1, 0, 5), caches);
  const tg::Tensor last = model.next(ids.slice(1, 5, 12), caches);
  EXPECT_LT(tg::amax(tg::abs(last - model.forward(ids).select(1, 11))).item(), 1e-5);
}

TEST(Evaluation, ScoresOnlyWhatHasEnoughBeforeIt) {
  tg::manual_seed(2);
  Gpt model(small("gpt2"));
  for (const nn::NamedTensor& entry : model.named_parameters())
    if (entry.tensor.rank() == 2) nn::init::normal_(entry.tensor, 0.0, 0.3);
  const std::vector<std::int64_t> tokens = counting(40);
  const tg::NoGradGuard no_grad;
  for (const std::int64_t unscored : {0, 1, 4, 6, 11}) {
    double sum = 0;
    std::int64_t count = 0, next = unscored + 1;  // each token from here on is predicted once
    for (std::int64_t start = 0; start + 12 < 40; start += 12 - unscored) {
      const tg::Tensor logits = model.forward(
          tg::from_vector(std::vector<std::int64_t>(tokens.begin() + start, tokens.begin() + start + 12), {1, 12}));
      const tg::Tensor log_p = tg::log_softmax(logits, -1);
      for (std::int64_t i = unscored; i < 12; ++i) {
        EXPECT_EQ(start + i + 1, next++);
        sum -= log_p.select(0, 0).select(0, i).select(0, tokens[static_cast<std::size_t>(start + i + 1)]).item();
        ++count;
      }
    }
    EXPECT_NEAR(evaluate(model, tokens, 0, unscored), sum / static_cast<double>(count), 1e-5) << unscored;
  }
}

class Options : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string run(const std::string& arguments, int code = 0) const {
    EXPECT_EQ(run_in(folder_, "'" TAPEGRAD_TOY_LM "' " + arguments), code) << read_bytes(path("stderr"));
    return read_bytes(path(code == 0 ? "stdout" : "stderr"));
  }
  static void expect_contains(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }

  const std::string small_ = "train --layers 1 --heads 2 --width 16 --context 8 --batch 6 --steps 12 ";
  const std::string folder_ =
      (std::filesystem::temp_directory_path() / ("tapegrad-options-" + std::to_string(::getpid()))).string();
};

TEST_F(Options, PartsOfABatchGiveTheGradientsOfTheWhole) {
  run(small_ + "--out whole");
  run(small_ + "--out parts --accumulate 3");
  const tg::StateDict whole = tg::load_safetensors(path("whole/model.safetensors"));
  for (const auto& [name, tensor] : tg::load_safetensors(path("parts/model.safetensors")))
    EXPECT_LT(tg::amax(tg::abs(tensor - whole.at(name))).item(), 1e-4) << name;
  for (const char* parts : {"4", "0", "7"}) expect_contains(run(small_ + "--accumulate " + parts, 2), "--accumulate");
}

TEST_F(Options, TheAverageOfTheWeightsIsWhatIsSaved) {
  run(small_ + "--out run --ema 0.9");
  const tg::StateDict checkpoint = tg::load_safetensors(checkpoint_path(path("run")));
  std::size_t i = 0;
  for (const auto& [name, tensor] : load_model(path("run/model.safetensors")).model.named_parameters()) {
    EXPECT_TRUE(tg::equal(tensor.detach(), checkpoint.at(fmt::format("ema.average.{}", i++)))) << name;
    EXPECT_FALSE(tg::equal(tensor.detach(), checkpoint.at("model." + name))) << name;
  }
  expect_contains(run(small_ + "--ema 1", 2), "--ema");
}

TEST_F(Options, ARecipeLeavesWhatIsGivenBesideIt) {
  for (const char* order : {"--lr 0.001 --recipe best", "--recipe best --lr 0.001"}) {
    run(small_ + "--overwrite --out run " + order);
    const std::string info = run("info run");
    for (const char* part : {"--blocks modern", "--optimizer muon", "--lr 0.001", "--batch 6", "SwiGLU",
                             "model.safetensors", "step\ttrain_loss", "\n12\t", "the built-in corpus"})
      expect_contains(info, part);
  }
  EXPECT_EQ(run("generate --from run --tokens 30").size(), 31u);
  expect_contains(run(small_ + "--recipe worst", 2), "--recipe");
  expect_contains(run(small_ + "--optimizer newton", 2), "--optimizer");
  expect_contains(run("info nowhere", 2), "nowhere/model.safetensors");
  nn::Linear other(1, 1);
  tg::optim::SGD optimizer(other.parameters());
  tg::save_checkpoint(checkpoint_path(path("run")), other, optimizer);
  expect_contains(run("info run"), "another program's");
  std::ofstream(checkpoint_path(path("run"))) << "damaged";
  expect_contains(run("info run", 2), "checkpoint.safetensors");
}

TEST_F(Options, PairsOfBytesAreLearntAndWritten) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("The caf\u00e9 has {} cakes.\n", i % 7);
  std::ofstream(path("text.txt")) << text;
  const std::string output = run(small_ + "--out run --text text.txt --tokenizer bpe --vocabulary 270");
  expect_contains(output, "270 different");
  const SavedModel saved = load_model(path("run/model.safetensors"));
  ASSERT_TRUE(saved.vocabulary.pairs().has_value());
  EXPECT_EQ(saved.vocabulary.size(), 270);
  const auto tokens = saved.vocabulary.encode(U"any text: \u6f22", "test");
  EXPECT_EQ(saved.vocabulary.pairs()->decode(tokens), "any text: \u6f22");
  EXPECT_GE(run("generate --from run --tokens 20 --prompt 'The '").size(), 25u);
  expect_contains(run("attention --from run --prompt 'The cakes'"), "layer 1, head 2");
  expect_contains(run(small_ + "--tokenizer bpe --vocabulary 255", 2), "--vocabulary");
}

TEST_F(Options, ARunOfTheRecipeResumesToTheSameBits) {
  expect_contains(run(small_ + "--recipe best --accumulate 2 --dropout 0.1 --verify-resume"), "end in the same bits");
}

}  // namespace
}  // namespace toy_lm
