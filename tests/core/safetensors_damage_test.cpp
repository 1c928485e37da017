// Damaged safetensors files: a thousand mutations of a good one, and what the inspection tells of some.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <tapegrad/tapegrad.hpp>

namespace tapegrad {
namespace {

class SafetensorsDamage : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// The text with its length in front.
  void write_header(const std::string& header, std::size_t data_bytes) const {
    const std::uint64_t length = header.size();
    write(std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(data_bytes, '\0'));
  }

  const std::string path_ = (std::filesystem::temp_directory_path() /
                             ("tapegrad-safetensors-damage-" + std::to_string(::getpid()) + ".safetensors"))
                                .string();
};

struct Model : nn::Module {
  nn::Linear in = register_module("in", nn::Linear(3, 4));
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(4));
  Tensor steps = register_buffer("steps", tensor({std::int64_t{7}}));
  Tensor kept = register_buffer("kept", tensor({true, false}));
};

std::vector<double> values_of(const StateDict& entries) {
  std::vector<double> values;
  for (const auto& [name, tensor] : entries)
    for (const double value : tensor.to_vector<double>()) values.push_back(value);
  return values;
}

/// One to three damages of the kinds that disks, transfers and editors do, most of them in the header.
std::string mutated(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  constexpr std::string_view kLikely = "0123456789-.eE[]{}\",:\\ \xff\x01";
  for (std::size_t left = 1 + below(3); left > 0 && !bytes.empty(); --left) {
    const std::size_t at = below(below(4) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 520));
    const std::size_t size = std::min(1 + below(24), bytes.size() - at);
    switch (below(7)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 1: bytes[at] = kLikely[below(kLikely.size())]; break;
      case 2: bytes.resize(at); break;
      case 3: bytes.erase(at, size); break;
      case 4: bytes.insert(at, bytes.substr(below(bytes.size()), size)); break;
      case 5: std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size, '\0'); break;
      default:  // another digit keeps the header readable: what it says is then wrong
        if (const std::size_t digit = bytes.find_first_of("0123456789", at); digit != bytes.npos)
          bytes[digit] = static_cast<char>('0' + below(10));
    }
  }
  return bytes;
}

TEST_F(SafetensorsDamage, AThousandMutationsAreRefusedByNameOrConsistent) {
  Model model;
  save_safetensors(path_, model.state_dict(), {{"step", "12"}});
  const std::string whole = read();
  std::mt19937_64 random(20);
  int refused = 0, accepted = 0;
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE(i);
    const std::string damaged = mutated(whole, random);
    write(damaged);
    const std::vector<double> before = values_of(model.state_dict());
    const std::int64_t in_use = memory::current();
    memory::reset_peak();
    const core::SafetensorsReport report = core::inspect_safetensors(path_);
    try {
      const StateDict loaded = load_safetensors(path_);
      ++accepted;
      EXPECT_TRUE(report.faults.empty()) << report.faults[0];
      EXPECT_EQ(report.entries.size(), loaded.size());
      try {
        model.load_state_dict(loaded);
        EXPECT_EQ(model.state_dict().size(), loaded.size());
        for (const auto& [name, tensor] : model.state_dict()) EXPECT_EQ(tensor.shape(), loaded.at(name).shape());
        for (const auto& parameter : model.parameters()) nn::init::normal_(parameter);
      } catch (const Error&) {
        EXPECT_TRUE(values_of(model.state_dict()) == before) << "a failed load has changed the model";
      }
    } catch (const FileError& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      EXPECT_FALSE(report.faults.empty());
      EXPECT_TRUE(values_of(model.state_dict()) == before);
    }
    EXPECT_LT(memory::peak() - in_use, 8 * static_cast<std::int64_t>(damaged.size()) + 200'000);
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 50);
}

TEST_F(SafetensorsDamage, InspectionTellsEveryFaultAndWhatIsSound) {
  write_header(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F8_E5M2","shape":[8],"data_offsets":[8,16]},"c":{"dtype":"I64","shape":[1],"data_offsets":[16,32]}})",
      24);
  const core::SafetensorsReport report = core::inspect_safetensors(path_);
  ASSERT_EQ(report.entries.size(), 3u);
  EXPECT_EQ(report.entries[1].dtype, "F8_E5M2");
  EXPECT_EQ(report.entries[2].offsets, (std::vector<std::uint64_t>{16, 32}));
  EXPECT_EQ(report.metadata, (core::Metadata{{"k", "v"}}));
  ASSERT_EQ(report.faults.size(), 2u);
  EXPECT_NE(report.faults[0].find(path_ + "': tensor \"b\": dtype"), std::string::npos) << report.faults[0];
  EXPECT_NE(report.faults[1].find(path_ + "': tensor \"c\": data_offsets"), std::string::npos) << report.faults[1];
}

TEST_F(SafetensorsDamage, InspectionGoesAsFarAsTheHeaderMakesSense) {
  write_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[-2]}})", 8);
  const core::SafetensorsReport report = core::inspect_safetensors(path_);
  ASSERT_EQ(report.entries.size(), 1u);
  EXPECT_EQ(report.entries[0].name, "a");
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_NE(report.faults[0].find("\"b\""), std::string::npos) << report.faults[0];
}

TEST_F(SafetensorsDamage, RangesThatOverlapAreNotReadOverAndOver) {
  std::string header = "{";
  for (int i = 0; i < 20'000; ++i)
    header +=
        (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1000000],"data_offsets":[0,1000000]})";
  write_header(header + "}", 1'000'000);
  const std::int64_t in_use = memory::current();
  memory::reset_peak();
  EXPECT_EQ(core::inspect_safetensors(path_).faults.size(), 1u);
  EXPECT_THROW(load_safetensors(path_), FileError);
  EXPECT_LT(memory::peak() - in_use, 1'000'000);
}

}  // namespace
}  // namespace tapegrad
