#include <gtest/gtest.h>

#include <fmt/format.h>

#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

struct Branch : nn::Module {
  nn::Linear inner = register_module("inner", nn::Linear(2, 3));
  nn::Dropout drop = register_module("drop", nn::Dropout(0.5));
  tg::Tensor scale = register_parameter("scale", tg::ones({3}));
  tg::Tensor steps = register_buffer("steps", tg::zeros({1}));
  tg::Tensor operator()(const tg::Tensor& x) const {
    const auto here = scope();
    return drop(inner(x)) * scale;
  }
};

struct Model : nn::Module {
  Branch left = register_module("left", Branch());
  nn::ModuleList<nn::Linear> layers = register_module("layers", nn::ModuleList<nn::Linear>({nn::Linear(3, 3)}));
  nn::Sequential tail = register_module("tail", nn::Sequential(nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 1)));
  tg::Tensor operator()(const tg::Tensor& x) {
    tg::Tensor y = left(x);
    for (auto& layer : layers) y = layer(y);
    return tail(y);
  }
};

std::vector<std::string> names(const std::vector<tg::NamedTensor>& list) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : list) result.push_back(name);
  return result;
}

bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

}  // namespace

TEST(ModuleTest, NamesAreDottedAndInOrderOfRegistration) {
  Model model;
  const std::vector<std::string> expected = {"left.scale",      "left.inner.weight", "left.inner.bias",
                                             "layers.0.weight", "layers.0.bias",     "tail.0.weight",
                                             "tail.0.bias",     "tail.2.weight",     "tail.2.bias"};
  EXPECT_EQ(names(model.named_parameters()), expected);
  EXPECT_EQ(model.parameters().size(), expected.size());
  EXPECT_EQ(model.num_parameters(), 3 + 6 + 3 + 9 + 3 + 12 + 4 + 4 + 1);
  EXPECT_EQ(names(model.named_buffers()), std::vector<std::string>{"left.steps"});
}

TEST(ModuleTest, TiedWeightsAreListedOnceAndSavedUnderBothNames) {
  struct Tied : nn::Module {
    nn::Linear a = register_module("a", nn::Linear(2, 2));
    tg::Tensor b = register_parameter("b", a.weight());
  } tied;
  EXPECT_EQ(names(tied.named_parameters()), (std::vector<std::string>{"b", "a.bias"}));
  EXPECT_EQ(tied.num_parameters(), 6);
  EXPECT_EQ(tied.state_dict().size(), 3u);
}

TEST(ModuleTest, AListHasNoMoreThanItsModules) {
  const Model model;
  EXPECT_EQ(model.layers[0].weight().shape(), (tg::Shape{3, 3}));
  EXPECT_THROW(model.layers[1], tg::IndexError);
}

TEST(ModuleTest, CopiesShare) {
  Model model;
  Model copy = model;
  copy.eval();
  EXPECT_FALSE(model.left.drop.is_training());
  EXPECT_EQ(copy.parameters()[0].body(), model.parameters()[0].body());
}

TEST(ModuleTest, ModeAndGradientsReachTheWholeTree) {
  Model model;
  EXPECT_TRUE(model.is_training() && model.left.drop.is_training());
  model.eval();
  EXPECT_FALSE(model.is_training() || model.left.drop.is_training() || model.layers[0].is_training());
  model(tg::ones({4, 2})).sum().backward();
  EXPECT_TRUE(model.left.inner.weight().grad().defined());
  model.zero_grad();
  for (const tg::Tensor& parameter : model.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(ModuleTest, ErrorsCarryThePathOfTheModule) {
  Model model;
  EXPECT_TRUE(error_of([&] { model(tg::ones({4, 5})); }).starts_with("left.inner: Linear: expected in_features = 2"));
  model.layers.append(nn::Linear(7, 7));
  EXPECT_TRUE(error_of([&] { model(tg::ones({4, 2})); }).starts_with("layers.1: Linear"));
  EXPECT_TRUE(error_of([&] { model.tail(tg::ones({2})); }).starts_with("tail.0: Linear"));
  EXPECT_TRUE(error_of([&] { nn::Linear(1, 1)(tg::ones({2})); }).starts_with("Linear"));
  struct Attending : nn::Module {
    nn::MultiHeadAttention attention = register_module("first", nn::MultiHeadAttention(4, 2));
  };
  const std::string text = error_of([] { Attending().attention(tg::ones({1, 3, 4}), {.mask = tg::ones({5, 5})}); });
  EXPECT_TRUE(text.starts_with("first: scaled_dot_product_attention: mask: it must")) << text;
}

TEST(ModuleTest, BadNamesAreRefused) {
  struct Twice : nn::Module {
    nn::Linear a = register_module("a", nn::Linear(1, 1));
    nn::Linear b = register_module("a", nn::Linear(1, 1));
  };
  struct Dotted : nn::Module {
    nn::Linear a = register_module("a.b", nn::Linear(1, 1));
  };
  EXPECT_THROW(Twice(), tg::ValueError);
  EXPECT_THROW(Dotted(), tg::ValueError);
}

TEST(ModuleTest, TensorsThatCannotBeLoadedInPlaceAreRefused) {
  struct Open : nn::Module {
    using nn::Module::register_buffer, nn::Module::register_parameter;
  } module;
  const tg::Tensor leaf = tg::ones({2}).requires_grad_(), result = leaf * 2;
  EXPECT_THROW(module.register_parameter("a", result), tg::GradError);
  EXPECT_THROW(module.register_buffer("a", result), tg::GradError);
  EXPECT_THROW(module.register_parameter("a", tg::tensor({1, 2})), tg::DtypeError);
  EXPECT_EQ(module.state_dict().size(), 0u);
  module.register_buffer("a", result.detach());
  EXPECT_EQ(module.state_dict().size(), 1u);
}

TEST(ModuleTest, StateDictGoesRound) {
  Model from, to;
  to.load_state_dict(from.state_dict());
  for (std::size_t i = 0; i < from.parameters().size(); ++i)
    EXPECT_TRUE(tg::equal(from.parameters()[i], to.parameters()[i]));
  EXPECT_NE(from.parameters()[0].body(), to.parameters()[0].body());
}

TEST(ModuleTest, OneErrorListsEverythingAndNothingIsLoaded) {
  Model model;
  tg::StateDict entries = Model().state_dict();
  EXPECT_TRUE(entries.erase("left.scale"));
  EXPECT_FALSE(entries.erase("left.scale"));
  entries.set("tail.0.bias", tg::zeros({9}));
  entries.set("stranger", tg::zeros({1}));
  const tg::Tensor before = model.left.inner.weight().clone();
  const std::string text = error_of([&] { model.load_state_dict(entries); });
  for (const char* word : {"missing: left.scale", "unexpected: stranger", "tail.0.bias must be [4], got [9]"})
    EXPECT_TRUE(has(text, word)) << word << " is not in " << text;
  EXPECT_TRUE(tg::equal(model.left.inner.weight(), before));
}

TEST(ModuleTest, IntegersAreNotLoadedFromFractions) {
  struct Counter : nn::Module {
    tg::Tensor count = register_buffer("count", tg::tensor(3));
  };
  Counter counter;
  const std::string text = error_of([&] { counter.load_state_dict({{"count", tg::tensor(1.7)}}); });
  EXPECT_TRUE(has(text, "wrong dtype: count must be int64, got float32")) << text;
  EXPECT_EQ(counter.count.item(), 3);
}

TEST(ModuleTest, LoadingLooselyReportsWhatWasLeftOut) {
  Model model;
  tg::StateDict entries = Model().state_dict();
  entries.erase("left.scale");
  entries.set("stranger", tg::zeros({1}));
  const nn::LoadReport report = model.load_state_dict(entries, false);
  EXPECT_EQ(report.missing, std::vector<std::string>{"left.scale"});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"stranger"});
  EXPECT_TRUE(tg::equal(model.left.inner.weight(), entries.at("left.inner.weight")));
}

TEST(ModuleTest, ConvertsInPlace) {
  Model model;
  model.to(tg::float64);
  EXPECT_EQ(model.left.inner.weight().dtype(), tg::float64);
  EXPECT_EQ(model.left.steps.dtype(), tg::float64);
  EXPECT_EQ(model(tg::ones({1, 2}, tg::float64)).dtype(), tg::float64);
}

TEST(ModuleTest, PrintsItsTree) {
  Model model;
  model.requires_grad_("tail.0.*", false);
  EXPECT_EQ(
      fmt::format("{}", model),
      "Module: 45 parameters, 16 frozen\n"
      "  left: Module: scale [3], steps [1], 12 parameters (26.7 %)\n"
      "    inner: Linear(in_features=2, out_features=3, bias=true): weight [3, 2], bias [3], 9 parameters (20.0 %)\n"
      "    drop: Dropout(p=0.5)\n"
      "  layers: ModuleList: 12 parameters (26.7 %)\n"
      "    0: Linear(in_features=3, out_features=3, bias=true): weight [3, 3], bias [3], 12 parameters (26.7 %)\n"
      "  tail: Sequential: 21 parameters (46.7 %), 16 frozen\n"
      "    0: Linear(in_features=3, out_features=4, bias=true): weight [4, 3], bias [4], 16 parameters (35.6 %), "
      "16 frozen\n"
      "    1: ReLU\n"
      "    2: Linear(in_features=4, out_features=1, bias=true): weight [1, 4], bias [1], 5 parameters (11.1 %)");
  EXPECT_EQ(nn::ReLU().to_string(), "ReLU: 0 parameters");
}

TEST(ModuleTest, FreezesByPattern) {
  Model model;
  model(tg::ones({4, 2})).sum().backward();
  const tg::Tensor kept = model.layers[0].weight().grad().clone();
  model.requires_grad_("*.inner.*", false);
  model.requires_grad_("layers.?.bias", false);
  for (const auto& [name, tensor] : model.named_parameters()) {
    const bool frozen = has(name, "inner") || name == "layers.0.bias";
    EXPECT_EQ(tensor.requires_grad(), !frozen) << name;
    EXPECT_EQ(tensor.grad().defined(), !frozen) << name;
  }
  EXPECT_TRUE(tg::equal(model.layers[0].weight().grad(), kept));
  const tg::Tensor before = model.left.inner.weight().clone();
  tg::optim::AdamW optimizer(model.parameters(), {.lr = 0.1, .weight_decay = 0.5});
  model(tg::ones({4, 2})).sum().backward();
  optimizer.step();
  EXPECT_TRUE(tg::equal(model.left.inner.weight(), before));
  EXPECT_FALSE(tg::equal(model.layers[0].weight().grad(), kept));
  model.requires_grad_("*");
  for (const tg::Tensor& parameter : model.parameters()) EXPECT_TRUE(parameter.requires_grad());
  const std::string text = error_of([&] { model.requires_grad_("block*", false); });
  EXPECT_TRUE(has(text, "\"block*\"") && has(text, "left.scale, left.inner.weight")) << text;
}

TEST(ModuleTest, ListsAndVisitsItsModules) {
  const Model model;
  std::vector<std::string> found, types;
  for (const auto& [name, module] : model.named_modules()) found.push_back(name);
  EXPECT_EQ(found, (std::vector<std::string>{"", "left", "left.inner", "left.drop", "layers", "layers.0", "tail",
                                             "tail.0", "tail.1", "tail.2"}));
  model.apply([&](const nn::Module& module) {
    types.push_back(module.type());
    if (module.type() == "Linear") nn::init::zeros_(module.named_tensor("bias"));
  });
  EXPECT_EQ(types[1] + types[2] + types[5], "ModuleLinearLinear");
  EXPECT_TRUE(tg::equal(model.left.inner.bias(), tg::zeros({3})));
  EXPECT_EQ(model.named_tensor("left.steps").body(), model.left.steps.body());
  EXPECT_THROW(model.named_tensor("left"), tg::ValueError);

  struct Twice : nn::Module {
    nn::Linear a = register_module("a", nn::Linear(1, 1));
    nn::Linear b = register_module("b", a);
  };
  EXPECT_EQ(Twice().named_modules().size(), 2u);
}

TEST(CloneTest, IsTheSameModelOfItsOwn) {
  Model model;
  model.to(tg::float64);
  model.left.drop.eval();
  model.requires_grad_("tail.*", false);
  tg::manual_seed(3);
  const Model copy = nn::clone(model);
  EXPECT_EQ(tg::random_state().position, 0u);
  const tg::StateDict theirs = model.state_dict();
  for (const auto& [name, tensor] : copy.state_dict()) {
    EXPECT_EQ(tensor.dtype(), tg::float64);
    EXPECT_TRUE(tg::equal(tensor, theirs.at(name))) << name;
  }
  EXPECT_TRUE(copy.is_training() && copy.left.is_training() && !copy.left.drop.is_training());
  for (const auto& [name, tensor] : copy.named_parameters())
    EXPECT_EQ(tensor.requires_grad(), !name.starts_with("tail"));
  const tg::Tensor x = tg::randn({4, 2}, tg::float64), before = Model(copy)(x);
  EXPECT_TRUE(tg::equal(before, model(x)));
  for (const tg::Tensor& parameter : model.parameters()) nn::init::zeros_(parameter);
  EXPECT_TRUE(tg::equal(Model(copy)(x), before));
}

TEST(CloneTest, TakesTheArgumentsOfTheConstructor) {
  const nn::Linear layer(3, 2, {.bias = false});
  const nn::Linear copy = nn::clone(layer, 3, 2, nn::LinearOptions{.bias = false});
  EXPECT_TRUE(tg::equal(copy.weight(), layer.weight()));
  const std::string text = error_of([&] { nn::clone(layer, 3, 4, nn::LinearOptions{.bias = false}); });
  EXPECT_TRUE(has(text, "got weight [4, 3] where the other has weight [2, 3]")) << text;
  EXPECT_TRUE(has(error_of([&] { nn::clone(layer, 3, 2); }), "got bias [2] where the other has nothing"));
  const nn::Sequential chain(layer, nn::ReLU());
  EXPECT_TRUE(tg::equal(nn::clone(chain, copy, nn::ReLU())(tg::ones({3})), chain(tg::ones({3}))));
  EXPECT_TRUE(has(error_of([&] { nn::clone(chain, layer, nn::ReLU()); }), "got a shared one, 0.weight [2, 3]"));
}

TEST(CloneTest, TiedTensorsStayTied) {
  struct Tied : nn::Module {
    nn::Embedding token = register_module("token", nn::Embedding(5, 3));
    nn::Linear head = register_module("head", nn::Linear(token.weight()));
  };
  struct Apart : nn::Module {
    nn::Embedding token = register_module("token", nn::Embedding(5, 3));
    nn::Linear head = register_module("head", nn::Linear(3, 5, {.bias = false}));
  };
  const Tied model, copy = nn::clone(model);
  EXPECT_EQ(copy.parameters().size(), 1u);
  EXPECT_EQ(copy.head.weight().body(), copy.token.weight().body());
  EXPECT_NE(copy.head.weight().body(), model.head.weight().body());
  copy.head(copy.token(tg::tensor({1, 2}))).sum().backward();
  EXPECT_TRUE(copy.token.weight().grad().defined() && !model.token.weight().grad().defined());
  EXPECT_TRUE(has(error_of([&] { Apart().copy_from(model); }), "head.weight [5, 3] tied to token.weight"));
  EXPECT_THROW(nn::Linear(tg::ones({3})), tg::ShapeError);
  EXPECT_THROW(nn::Linear(tg::ones({3, 2}), tg::ones({2})), tg::ShapeError);
}

TEST(CloneTest, SharedModulesStayShared) {
  struct Shared : nn::Module {
    nn::Dropout a = register_module("a", nn::Dropout());
    nn::Dropout b = register_module("b", a);
  };
  struct Apart : nn::Module {
    nn::Dropout a = register_module("a", nn::Dropout());
    nn::Dropout b = register_module("b", nn::Dropout());
  };
  EXPECT_TRUE(has(error_of([] { Apart().copy_from(Shared()); }), "where the other has b. Dropout tied to a."));
  EXPECT_TRUE(has(error_of([] { Shared().copy_from(Apart()); }), "got b. Dropout tied to a."));
  nn::clone(Shared());
}

TEST(CloneTest, ATensorInAnotherPlaceIsSharedToo) {
  struct Pair : nn::Module {
    Pair(const tg::Tensor& a, const tg::Tensor& b) { register_parameter("a", a), register_parameter("b", b); }
  };
  const tg::Tensor a = tg::ones({2}), b = tg::zeros({2});
  EXPECT_TRUE(has(error_of([&] { Pair(a, b).copy_from(Pair(b, a)); }), "got a shared one, a [2]"));
  EXPECT_EQ(a.sum().item(), 2);
}

TEST(ModuleTest, ABufferIsChangedInPlace) {
  struct Counting : nn::Module {
    tg::Tensor calls = register_buffer("calls", tg::tensor(0));
    void operator()() const { nn::init::copy_(calls, calls + 1); }
  };
  const Counting module;
  module(), module();
  EXPECT_EQ(module.state_dict().at("calls").item(), 2);
}
