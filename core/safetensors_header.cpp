#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include <tapegrad/core/error.hpp>
#include <tapegrad/core/safetensors_header.hpp>

namespace tapegrad::core {
namespace {

using nlohmann::json;

/// Receives the parser's events. A state machine instead of a tree: nesting that the format doesn't have is refused at
/// the first bracket too many, before anything is kept.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  HeaderReader(const std::string& where, SafetensorsHeader& header) : header_(header), where_(where) {}

  bool start_object(std::size_t) override {
    if (state_ == State::start) return enter(State::top);
    if (state_ == State::new_metadata) return enter(State::metadata);
    if (state_ == State::new_entry) return enter(State::entry);
    return unexpected("an object");
  }
  bool key(std::string& key) override {
    if (state_ == State::top) return start_member(key);
    if (!keys_.insert(key).second) return fault("key " + quoted_name(key) + " is given twice");
    key_ = key;
    if (state_ == State::metadata) return true;
    if (key == "dtype") return enter(State::dtype);
    if (key == "shape") return enter(State::shape);
    if (key == "data_offsets") return enter(State::offsets);
    return fault("keys must be dtype, shape and data_offsets; got " + quoted_name(key));
  }
  bool end_object() override {
    if (state_ == State::entry && keys_.size() != 3) return fault("dtype, shape and data_offsets must all be given");
    if (state_ == State::entry || state_ == State::metadata) {
      keys_.clear();
      current_.clear();
      return enter(State::top);
    }
    return enter(State::done);
  }
  bool string(std::string& text) override {
    if (state_ == State::metadata) {
      header_.metadata[key_] = text;
      return true;
    }
    if (state_ != State::dtype) return unexpected("a string");
    header_.entries.back().dtype = text;
    return enter(State::entry);
  }
  bool start_array(std::size_t) override {
    if (state_ == State::shape) return enter(State::sizes);
    if (state_ == State::offsets) return enter(State::bounds);
    return unexpected("an array");
  }
  bool number_unsigned(std::uint64_t number) override {
    if (state_ == State::sizes) return keep(header_.entries.back().shape, number);
    if (state_ == State::bounds) return keep(header_.entries.back().offsets, number);
    return unexpected("a number");
  }
  bool end_array() override { return enter(State::entry); }

  bool number_integer(std::int64_t number) override {
    return unexpected(fmt::format("the negative number {}", number));
  }
  bool number_float(double, const std::string& text) override { return unexpected("the number " + text.substr(0, 40)); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool binary(json::binary_t&) override { return unexpected("bytes"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fault(fmt::format("the header must be JSON in UTF-8; it goes wrong at its byte {}", position));
  }

  bool is_within_entry() const { return state_ >= State::new_entry && state_ <= State::bounds; }

 private:
  enum class State { start, top, new_metadata, metadata, new_entry, entry, dtype, shape, sizes, offsets, bounds, done };

  bool enter(State state) {
    state_ = state;
    return true;
  }
  bool keep(std::vector<std::uint64_t>& list, std::uint64_t number) {
    if (list.size() == kLongestList) return fault(fmt::format("lists may hold up to {} numbers", kLongestList));
    list.push_back(number);
    return true;
  }
  bool start_member(const std::string& name) {
    current_ = name;
    if (!names_.insert(name).second) return fault("it is named twice");
    if (name == "__metadata__") return enter(State::new_metadata);
    header_.entries.push_back({name, {}, {}, {}});
    return enter(State::new_entry);
  }
  bool unexpected(const std::string& what) {
    const char* place =
        state_ == State::start                                ? "the header must be an object"
        : state_ == State::new_entry                          ? "an entry must be an object"
        : state_ == State::dtype                              ? "dtype must be a string"
        : state_ == State::sizes || state_ == State::shape    ? "shape must be a list of whole numbers from 0"
        : state_ == State::bounds || state_ == State::offsets ? "data_offsets must be two whole numbers from 0"
                                                              : "__metadata__ must map strings to strings";
    return fault(std::string(place) + "; got " + what);
  }
  [[noreturn]] bool fault(const std::string& text) {
    throw FileError(where_ + (current_.empty() ? "" : "tensor " + quoted_name(current_) + ": ") + text +
                    "; the file is damaged or no safetensors file");
  }

  static constexpr std::size_t kLongestList = 64;
  SafetensorsHeader& header_;
  const std::string& where_;
  State state_ = State::start;
  std::set<std::string> names_;
  std::set<std::string> keys_;
  std::string key_;
  std::string current_;
};

}  // namespace

void parse_safetensors_header(const std::string& where, std::string_view text, SafetensorsHeader& header) {
  HeaderReader reader(where, header);
  try {
    json::sax_parse(text.begin(), text.end(), &reader);
  } catch (const FileError&) {
    if (reader.is_within_entry()) header.entries.pop_back();
    throw;
  }
}

std::string format_safetensors_header(const std::string& where, const SafetensorsHeader& header) {
  try {
    std::string members;
    if (!header.metadata.empty()) members = "\"__metadata__\":" + json(header.metadata).dump();
    for (const SafetensorsEntry& entry : header.entries)
      members +=
          fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":{}}}", members.empty() ? "" : ",",
                      json(entry.name).dump(), entry.dtype, json(entry.shape).dump(), json(entry.offsets).dump());
    std::string text = "{" + members + "}";
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const json::exception&) {
    throw ValueError(where + "names and metadata must be UTF-8; got other bytes");
  }
}

std::string quoted_name(const std::string& name) {
  const auto byte = [](const std::string& text, std::size_t at) { return static_cast<unsigned char>(text[at]); };
  std::string shown = name;
  if (name.size() > 80) {
    std::size_t cut = 40, rest = name.size() - 40;  // of whole characters
    while (cut < rest && (byte(name, cut) & 0xc0) == 0x80) ++cut;
    while (cut < rest && (byte(name, rest) & 0xc0) == 0x80) ++rest;
    shown = name.substr(0, cut) + "..." + name.substr(rest);
  }
  const std::string text = json(shown).dump(-1, ' ', false, json::error_handler_t::replace);
  std::string result;
  for (std::size_t i = 0, size = 0; i < text.size(); i += size) {
    const int lead = byte(text, i);
    size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    int code = size == 1 ? lead : lead & (0x7f >> size);
    for (std::size_t k = 1; k < size; ++k) code = code << 6 | (byte(text, i + k) & 0x3f);
    // What JSON leaves as it is: delete, Latin-1's controls, and what breaks lines or turns their direction.
    const bool is_control = (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
                            (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    result += is_control ? fmt::format("\\u{:04x}", code) : text.substr(i, size);
  }
  return result;
}

}  // namespace tapegrad::core
