#include "model_file.hpp"

#include <charconv>
#include <filesystem>
#include <tapegrad/autograd/serialization.hpp>

#include "bad_input.hpp"
#include "resume.hpp"

namespace toy_lm {
namespace {

std::int64_t read_number(const tg::Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  std::int64_t number = 0;
  if (found != metadata.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) number = 0;
  }
  if (number < 1) throw BadInput("its metadata must give '" + key + "' as a number from 1");
  return number;
}

/// The file's own tensors must bear out the numbers before a model of that size is made.
GptConfig read_config(const tg::AnnotatedStateDict& file, std::int64_t vocabulary) {
  GptConfig config{.vocabulary = vocabulary,
                   .context = read_number(file.metadata, "context"),
                   .layers = read_number(file.metadata, "layers"),
                   .heads = read_number(file.metadata, "heads"),
                   .width = read_number(file.metadata, "width"),
                   .bias = file.entries.contains("norm.bias")};
  if (file.metadata.contains("gelu_tanh")) config.feed_forward = nn::FeedForward::gelu_tanh;
  const tg::Tensor* token = file.entries.find("token.weight");
  const tg::Tensor* position = file.entries.find("position.weight");
  if (!position) config.blocks = "modern";
  constexpr std::int64_t kLongest = 1'000'000;  // no tensor says how long a modern model's context is
  if (!token || token->shape() != tg::Shape{vocabulary, config.width} ||
      (position && position->shape() != tg::Shape{config.context, config.width}) || config.width % config.heads != 0 ||
      config.context > kLongest || config.layers > static_cast<std::int64_t>(file.entries.size()))
    throw BadInput("its tensors don't fit the vocabulary, context, layers, heads and width in its metadata");
  return config;
}

Vocabulary read_vocabulary(const tg::AnnotatedStateDict& file) {
  if (const auto found = file.metadata.find("tokenizer"); found != file.metadata.end()) {
    const auto tokenizer = tg::data::parse_tokenizer(found->second);
    if (const auto* pairs = dynamic_cast<const tg::data::BpeTokenizer*>(tokenizer.get())) return Vocabulary(*pairs);
    throw BadInput("its tokenizer must be one of pairs of bytes");
  }
  const auto characters = file.metadata.find("vocabulary");
  if (characters == file.metadata.end()) throw BadInput("its metadata has no vocabulary");
  const std::u32string text = decode_utf8(characters->second, "vocabulary");
  const Vocabulary vocabulary(text);
  if (vocabulary.characters() != text) throw BadInput("its vocabulary must name each character once, in order");
  return vocabulary;
}

SavedModel build(const tg::AnnotatedStateDict& file) {
  const Vocabulary vocabulary = read_vocabulary(file);
  SavedModel saved{Gpt(read_config(file, vocabulary.size())), vocabulary};
  saved.model.load_state_dict(file.entries);
  saved.model.eval();
  return saved;
}

}  // namespace

void save_model(const std::string& path, const Gpt& model, const Vocabulary& vocabulary) {
  const GptConfig& config = model.config();
  tg::Metadata metadata = {{"context", std::to_string(config.context)},
                           {"layers", std::to_string(config.layers)},
                           {"heads", std::to_string(config.heads)},
                           {"width", std::to_string(config.width)}};
  if (vocabulary.pairs())
    metadata["tokenizer"] = vocabulary.pairs()->to_json();
  else
    metadata["vocabulary"] = encode_utf8(vocabulary.characters());
  if (config.feed_forward == nn::FeedForward::gelu_tanh) metadata["gelu_tanh"] = "yes";
  tg::save_safetensors(path, model.state_dict(), metadata);
}

SavedModel load_model(const std::string& path) {
  if (std::error_code error; !std::filesystem::exists(path, error) && !error) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    throw BadInput(std::filesystem::exists(checkpoint_path(folder), error)
                       ? fmt::format("model '{}': is not there before the first evaluation of its run; go on with "
                                     "'toy_lm train --resume {}'",
                                     path, folder)
                       : fmt::format("model '{}': is not there; train one with 'toy_lm train --out {}'", path, folder));
  }
  try {
    return build(tg::load_annotated_safetensors(path));
  } catch (const tg::FileError& error) {
    throw BadInput(error.what());
  } catch (const std::runtime_error& error) {
    throw BadInput("model '" + path + "': " + error.what() + "; train one with 'toy_lm train'");
  }
}

}  // namespace toy_lm
