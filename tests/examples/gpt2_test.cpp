// A small model in the layout of the published GPT-2 (tests/reference/files.py) gives the logits that PyTorch computed.
#include "gpt2.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "bad_input.hpp"
#include "model_file.hpp"
#include "reference/cases.hpp"

namespace {

using namespace toy_lm;

const std::string kFile = TAPEGRAD_REFERENCE_DIR "/gpt2.safetensors";

class Gpt2 : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  /// A model from a file of these entries.
  Gpt load(const tg::StateDict& entries, std::int64_t heads = 2) const {
    tg::save_safetensors(path_, entries);
    return load_gpt2(path_, heads);
  }
  void expect_refused(const std::function<void(tg::StateDict&)>& change, const std::vector<std::string>& parts) const {
    tg::StateDict entries = tg::load_safetensors(kFile);
    change(entries);
    try {
      load(entries);
      ADD_FAILURE() << "was accepted";
    } catch (const BadInput& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(path_), std::string::npos) << text;
      for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
    }
  }
  void expect_logits(Gpt model) const {
    model.to(tg::float64);
    EXPECT_LT(tg::reference::distance(logits_, model.forward(ids_)), 1e-12);
  }

  const tg::reference::Json reference_ = tg::reference::read("gpt2.json");
  const tg::Tensor ids_ = tg::reference::tensor_of(reference_["ids"]);
  const tg::Tensor logits_ = tg::reference::tensor_of(reference_["logits"]);
  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("tapegrad-gpt2-" + std::to_string(::getpid()))).string();
};

TEST_F(Gpt2, LogitsArePyTorchs) {
  Gpt model = load_gpt2(kFile, 2);
  EXPECT_EQ(model.config().layers, 2);
  EXPECT_EQ(model.config().context, 6);
  EXPECT_EQ(model.config().vocabulary, 11);
  EXPECT_LT(tg::reference::distance(logits_.to(tg::float32), model.forward(ids_)), 1e-5);
  expect_logits(model);
}

TEST_F(Gpt2, TokensOneByOneGiveTheSame) {
  const tg::NoGradGuard no_grad;
  const Gpt model = load_gpt2(kFile, 2);
  std::vector<nn::KVCache> caches(2);
  for (std::int64_t i = 0; i < 6; ++i)
    EXPECT_LT(
        tg::reference::distance(logits_.select(1, i).to(tg::float32), model.next(ids_.slice(1, i, i + 1), caches)),
        1e-5);
}

TEST_F(Gpt2, PrefixAndAHeadThatIsTiedAreUnderstood) {
  tg::StateDict entries;
  for (const auto& [name, tensor] : tg::load_safetensors(kFile)) entries.set("transformer." + name, tensor);
  entries.set("lm_head.weight", entries.at("transformer.wte.weight"));
  entries.set("transformer.h.0.attn.masked_bias", tg::tensor(-1e4));
  expect_logits(load(entries));
}

TEST_F(Gpt2, IsTheSameAsAModelOfOurs) {
  save_model(path_, load_gpt2(kFile, 2), Vocabulary(U"abcdefghijk"));
  expect_logits(load_model(path_).model);
}

TEST_F(Gpt2, EverythingThatIsWrongIsNamedAtOnce) {
  expect_refused(
      [](tg::StateDict& entries) {
        entries.erase("h.1.ln_2.bias");
        entries.set("h.0.mlp.c_fc.weight", tg::zeros({32, 8}));
        entries.set("h.0.ln_1.weight", tg::zeros({8}, tg::int64));
        entries.set("h.3.ln_1.weight", tg::zeros({8}));
        entries.set("lm_head.weight", tg::zeros({11, 8}));
      },
      {"h.1.ln_2.bias is missing", "h.0.mlp.c_fc.weight", "[8, 32]", "[32, 8]", "h.0.ln_1.weight", "int64",
       "h.3.ln_1.weight is unexpected", "lm_head.weight is unexpected"});
  expect_refused([](auto& entries) { entries.erase("wte.weight"); }, {"wte.weight is missing"});
  expect_refused([](auto& entries) { entries.set("wpe.weight", tg::zeros({6, 7})); }, {"wpe.weight", "[-1, 8]"});
  expect_refused([](auto& entries) { entries.set("transformer.wte.weight", entries.at("wte.weight")); },
                 {"wte.weight is given with and without"});
}

TEST_F(Gpt2, HeadsMustDivideTheWidth) {
  EXPECT_THROW(load_gpt2(kFile, 3), BadInput);
  EXPECT_THROW(load_gpt2(kFile, -1), BadInput);
  EXPECT_THROW(load_gpt2(kFile), BadInput);  // of width 64: there is room for none
  EXPECT_THROW(load_gpt2("missing.safetensors"), BadInput);
}

}  // namespace
