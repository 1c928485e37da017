#include "gpt2.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "bad_input.hpp"

namespace toy_lm {
namespace {

/// Where a tensor of a block goes: split along its last dimension if into several. Sizes are in widths of the model; a
/// vector has none in front.
struct Part {
  const char* theirs;
  std::vector<const char*> ours;
  std::int64_t in;
  std::int64_t out;
};

const Part kParts[] = {
    {"ln_1.weight", {"norm1.weight"}, 0, 1},
    {"ln_1.bias", {"norm1.bias"}, 0, 1},
    {"attn.c_attn.weight", {"attention.q_proj.weight", "attention.k_proj.weight", "attention.v_proj.weight"}, 1, 3},
    {"attn.c_attn.bias", {"attention.q_proj.bias", "attention.k_proj.bias", "attention.v_proj.bias"}, 0, 3},
    {"attn.c_proj.weight", {"attention.out_proj.weight"}, 1, 1},
    {"attn.c_proj.bias", {"attention.out_proj.bias"}, 0, 1},
    {"ln_2.weight", {"norm2.weight"}, 0, 1},
    {"ln_2.bias", {"norm2.bias"}, 0, 1},
    {"mlp.c_fc.weight", {"linear1.weight"}, 1, 4},
    {"mlp.c_fc.bias", {"linear1.bias"}, 0, 4},
    {"mlp.c_proj.weight", {"linear2.weight"}, 4, 1},
    {"mlp.c_proj.bias", {"linear2.bias"}, 0, 1}};

constexpr std::string_view kPrefix = "transformer.";

/// Takes entries out of the file's one by one and gathers what is wrong with them.
class Conversion {
 public:
  explicit Conversion(const tg::StateDict& file) {
    const bool has_prefix = file.contains("transformer.wte.weight");
    for (const auto& [name, tensor] : file) {
      const bool is_inside = has_prefix && name.starts_with(kPrefix);
      const std::string bare = is_inside ? name.substr(kPrefix.size()) : name;
      if (left_.contains(bare)) faults_.push_back(bare + " is given with and without \"transformer.\"");
      if (!bare.ends_with(".attn.bias") && !bare.ends_with(".attn.masked_bias")) left_.set(bare, tensor);
    }
  }

  bool has_block(std::int64_t number) const {
    const std::string prefix = fmt::format("h.{}.", number);
    return std::any_of(left_.begin(), left_.end(), [&](const auto& entry) { return entry.name.starts_with(prefix); });
  }
  /// -1 in the shape stands for any size. Undefined, and a fault, if it is not there in that shape.
  tg::Tensor take(const std::string& name, const tg::Shape& shape) {
    const tg::Tensor* found = left_.find(name);
    if (!found) {
      faults_.push_back(name + " is missing");
      return {};
    }
    const tg::Tensor tensor = *found;
    left_.erase(name);
    const bool fits = std::equal(shape.begin(), shape.end(), tensor.shape().begin(), tensor.shape().end(),
                                 [](std::int64_t wanted, std::int64_t size) { return wanted == -1 || wanted == size; });
    if (fits && tg::is_floating(tensor.dtype())) return tensor;
    faults_.push_back(fmt::format("{} must be of floating numbers and of shape {} (-1: any), but is {} of shape {}",
                                  name, shape, tg::name_of(tensor.dtype()), tensor.shape()));
    return {};
  }
  void take_block(std::int64_t number, std::int64_t width) {
    for (const Part& part : kParts) {
      const std::int64_t out = part.out * width;
      const tg::Tensor tensor = take(fmt::format("h.{}.{}", number, part.theirs),
                                     part.in == 0 ? tg::Shape{out} : tg::Shape{part.in * width, out});
      if (!tensor.defined()) continue;
      const tg::Tensor turned = part.in == 0 ? tensor : tensor.transpose(0, 1);
      const auto count = static_cast<std::int64_t>(part.ours.size());
      for (std::int64_t i = 0; i < count; ++i)
        result.set(fmt::format("blocks.{}.{}", number, part.ours[static_cast<std::size_t>(i)]),
                   turned.slice(0, i * out / count, (i + 1) * out / count));
    }
  }
  /// The head shares the embedding's table.
  void take_head(const tg::Tensor& table) {
    if (const tg::Tensor* head = left_.find("lm_head.weight"); head && tg::equal(*head, table))
      left_.erase("lm_head.weight");
  }
  void finish() {
    for (const auto& [name, tensor] : left_) faults_.push_back(name + " is unexpected");
    check();
  }
  void check() const {
    if (!faults_.empty()) throw BadInput(fmt::format("its tensors must be GPT-2's: {}", fmt::join(faults_, "; ")));
  }

  tg::StateDict result;

 private:
  tg::StateDict left_;
  std::vector<std::string> faults_;
};

Gpt convert(const tg::StateDict& file, std::int64_t heads) {
  const tg::NoGradGuard no_grad;
  Conversion conversion(file);
  const tg::Tensor token = conversion.take("wte.weight", {-1, -1});
  const tg::Tensor position = conversion.take("wpe.weight", {-1, token.defined() ? token.size(1) : -1});
  conversion.check();
  GptConfig config{.vocabulary = token.size(0),
                   .context = position.size(0),
                   .layers = 0,
                   .heads = heads == 0 ? token.size(1) / 64 : heads,
                   .width = token.size(1),
                   .bias = true,
                   .feed_forward = nn::FeedForward::gelu_tanh};
  conversion.result = {{"token.weight", token}, {"position.weight", position}};
  do conversion.take_block(config.layers++, config.width);
  while (conversion.has_block(config.layers));
  for (const char* kind : {"weight", "bias"})
    conversion.result.set(fmt::format("norm.{}", kind), conversion.take(fmt::format("ln_f.{}", kind), {config.width}));
  conversion.take_head(token);
  conversion.finish();
  if (config.heads < 1 || config.width % config.heads != 0)
    throw BadInput(
        fmt::format("its width of {} must be a multiple of the number of heads; got {}", config.width, config.heads));
  Gpt model(config);
  model.load_state_dict(conversion.result);
  model.eval();
  return model;
}

}  // namespace

Gpt load_gpt2(const std::string& path, std::int64_t heads) {
  try {
    return convert(tg::load_safetensors(path), heads);
  } catch (const tg::FileError& error) {
    throw BadInput(error.what());
  } catch (const std::runtime_error& error) {
    throw BadInput("load_gpt2: '" + path + "': " + error.what());
  }
}

}  // namespace toy_lm
