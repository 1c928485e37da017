#include <tapegrad/training/checkpoint.hpp>

#include <fmt/format.h>

#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/core/random.hpp>
#include <tapegrad/core/require.hpp>

namespace tapegrad {
namespace {

constexpr const char* kMark = "tapegrad.checkpoint";  // its value: the names of the parts, each with a space behind it
constexpr const char* kExtra = "extra";
constexpr const char* kState = "tapegrad.state";  // the step; the seed and the position of the random numbers

using Parts = std::vector<std::pair<std::string, Stateful>>;

[[noreturn]] void fail(const std::string& path, const std::string& text) {
  throw FileError(fmt::format("load_checkpoint: '{}': {}; nothing was changed", path, text));
}

/// Schedules come behind the optimizer whose rates they set.
void add_given(Parts& list, const CheckpointParts& parts) {
  for (const auto& [name, part] : {std::pair{"schedule", &parts.schedule}, {"ema", &parts.ema}, {"data", &parts.data}})
    if (*part) list.emplace_back(name, *part);
  for (const auto& [name, part] : parts.more) {
    bool taken = name.empty() || name == kExtra || name == "tapegrad" || name.find_first_of(". ") != name.npos;
    for (const auto& other : list) taken = taken || other.first == name;
    require(!taken && part,
            "checkpoint: a part must be defined and have a name of its own, without dots and spaces; got '{}'", name);
    list.emplace_back(name, part);
  }
}

std::string names_of(const Parts& parts) {
  std::string names;
  for (const auto& [name, part] : parts) names += name + " ";
  return names;
}

/// The entries whose names begin with "<part>.", without that.
StateDict part_of(const StateDict& entries, const std::string& part) {
  StateDict result;
  for (const auto& [name, tensor] : entries)
    if (name.starts_with(part + ".")) result.set(name.substr(part.size() + 1), tensor);
  return result;
}

void put(StateDict& entries, const std::string& part, const StateDict& from) {
  for (const auto& [name, tensor] : from) entries.set(fmt::format("{}.{}", part, name), tensor);
}

StateDict copied(const StateDict& entries) {
  StateDict result;
  for (const auto& [name, tensor] : entries) result.set(name, Tensor(tensor.array().copy()));
  return result;
}

struct Content {
  StateDict entries;
  std::string parts;
  RandomState random;
  CheckpointNote note;
};

Content read(const std::string& path) {
  AnnotatedStateDict file = load_annotated_safetensors(path);
  const auto mark = file.metadata.find(kMark);
  const Tensor* state = file.entries.find(kState);
  if (mark == file.metadata.end() || !state || state->dtype() != int64 || state->shape() != Shape{3})
    fail(path, "must be a checkpoint; it is another safetensors file (load_safetensors reads those)");
  const std::vector<std::int64_t> numbers = state->to_vector<std::int64_t>();
  Content content{{},
                  mark->second,
                  {static_cast<std::uint64_t>(numbers[1]), static_cast<std::uint64_t>(numbers[2])},
                  {numbers[0], {}, part_of(file.entries, kExtra)}};
  file.metadata.erase(mark);
  content.note.metadata = std::move(file.metadata);
  content.entries = std::move(file.entries);
  return content;
}

}  // namespace

void save_checkpoint(const std::string& path, const nn::Module& module, const optim::Optimizer& optimizer,
                     const CheckpointParts& parts, const CheckpointNote& note) {
  require(!note.metadata.contains(kMark), "save_checkpoint: '{}' must not be a key of the metadata", kMark);
  Parts list;
  list.emplace_back("model", Stateful()), list.emplace_back("optimizer", Stateful());
  add_given(list, parts);
  const RandomState random = random_state();
  StateDict entries{{kState, tensor({note.step, static_cast<std::int64_t>(random.seed),
                                     static_cast<std::int64_t>(random.position)})}};
  put(entries, "model", module.state_dict());
  put(entries, "optimizer", optimizer.state_dict());
  for (const auto& [name, part] : list)
    if (part) put(entries, name, part.save());
  put(entries, kExtra, note.extra);
  Metadata metadata = note.metadata;
  metadata[kMark] = names_of(list);
  save_safetensors(path, entries, metadata);
}

CheckpointNote load_checkpoint(const std::string& path, nn::Module& module, optim::Optimizer& optimizer,
                               const CheckpointParts& parts) {
  Parts list;
  list.emplace_back("model", module), list.emplace_back("optimizer", optimizer);
  add_given(list, parts);
  Content content = read(path);
  if (content.parts != names_of(list))
    fail(path, fmt::format("the parts must be those that were saved; it has {}and was to be loaded into {}",
                           content.parts, names_of(list)));
  std::vector<StateDict> before, after;
  std::size_t known = 1 + content.note.extra.size();  // with the state
  for (const auto& [name, part] : list) {
    before.push_back(copied(part.save()));
    after.push_back(part_of(content.entries, name));
    known += after.back().size();
  }
  if (known != content.entries.size())
    fail(path, fmt::format("every entry must belong to a part; {} of {} don't", content.entries.size() - known,
                           content.entries.size()));
  std::size_t loaded = 0;
  try {
    for (; loaded < list.size(); ++loaded) list[loaded].second.load(after[loaded]);
  } catch (const std::exception& error) {
    const std::string faulty = list[loaded].first;
    while (loaded-- > 0) list[loaded].second.load(before[loaded]);
    fail(path, fmt::format("{}: {}", faulty, error.what()));
  }
  set_random_state(content.random);
  return std::move(content.note);
}

CheckpointNote read_checkpoint_note(const std::string& path) { return read(path).note; }

}  // namespace tapegrad
