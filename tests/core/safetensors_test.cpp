#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <tapegrad/autograd/creation.hpp>
#include <tapegrad/autograd/elementwise.hpp>
#include <tapegrad/autograd/serialization.hpp>
#include <tapegrad/core/error.hpp>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace tapegrad {
namespace {

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "file.safetensors") const { return (folder_ / name).string(); }

  void write(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }
  /// A file with this header and `data_bytes` zero bytes of data.
  void write_header(const std::string& header, std::size_t data_bytes = 0) const {
    const std::uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    write(bytes + header + std::string(data_bytes, '\0'));
  }
  std::string read() const { return read(path()); }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int files_in_folder() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  /// Loading fails with a FileError that holds the file's name and each of `parts`.
  void expect_refused(const std::vector<std::string>& parts) const {
    try {
      load_safetensors(path());
      ADD_FAILURE() << "was accepted";
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << "\nlacks " << part;
    }
  }
  /// One tensor "w" with these members and 16 bytes of data.
  void expect_entry_refused(const std::string& members, const std::string& part) const {
    SCOPED_TRACE(members);
    write_header("{\"w\":{" + members + "}}", 16);
    expect_refused({"\"w\"", part});
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tapegrad-safetensors-" + std::to_string(::getpid()));
};

StateDict example() {
  StateDict entries;
  entries.set("flags", tensor({true, false, true}));
  entries.set("layer.weight", tensor({{1.0, 2.0, 3.0}, {-4.0, 5.5, 1e-30}}));
  entries.set("precise", tensor({0.1, 0.2}, float64));
  entries.set("counts", tensor({std::int64_t{1} << 40, std::int64_t{-7}}));
  entries.set("scalar", tensor(3.5, float32));
  entries.set("nothing", zeros({0, 3}));
  return entries;
}

TEST_F(Safetensors, RoundTripKeepsOrderTypesShapesValuesAndMetadata) {
  const Metadata metadata = {{"format", "pt"}, {"text", "line\n\"quoted\" \xc3\xa9"}};
  save_safetensors(path(), example(), metadata);
  const AnnotatedStateDict loaded = load_annotated_safetensors(path());
  EXPECT_EQ(loaded.metadata, metadata);
  const StateDict expected = example();
  ASSERT_EQ(loaded.entries.size(), expected.size());
  auto entry = loaded.entries.begin();
  for (const auto& [name, tensor] : expected) {
    EXPECT_EQ(entry->name, name);
    EXPECT_EQ(entry->tensor.dtype(), tensor.dtype());
    EXPECT_EQ(entry->tensor.shape(), tensor.shape());
    EXPECT_EQ(entry->tensor.to_vector<double>(), tensor.to_vector<double>());
    ++entry;
  }
}

TEST_F(Safetensors, ViewsAreWrittenInRowMajorOrder) {
  const Tensor x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  save_safetensors(path(), {{"turned", x.transpose(0, 1)}, {"cut", x.slice(1, 1, 3)}});
  const StateDict loaded = load_safetensors(path());
  EXPECT_EQ(loaded.at("turned").to_vector<double>(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(loaded.at("cut").to_vector<double>(), (std::vector<double>{2, 3, 5, 6}));
}

// The layout as the format's description has it, read without this library's reader.
TEST_F(Safetensors, FileIsLaidOutAsTheFormatSays) {
  save_safetensors(path(), example());
  const std::string bytes = read();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(header["layer.weight"]["dtype"], "F32");
  EXPECT_EQ(header["layer.weight"]["shape"], (std::vector<int>{2, 3}));
  EXPECT_EQ(header["flags"]["dtype"], "BOOL");
  EXPECT_EQ(header["scalar"]["shape"], nlohmann::json::array());
  const std::size_t begin = header["layer.weight"]["data_offsets"][0];
  EXPECT_EQ(begin % 8, 0u) << "tensors are aligned";
  float values[6];
  std::memcpy(values, bytes.data() + 8 + length + begin, sizeof values);
  EXPECT_EQ(values[4], 5.5f);
}

TEST_F(Safetensors, EveryDtypeThatPythonWritesIsReadExactly) {
  const AnnotatedStateDict file = load_annotated_safetensors(TAPEGRAD_REFERENCE_DIR "/dtypes.safetensors");
  EXPECT_EQ(file.metadata, (Metadata{{"format", "pt"}, {"text", "caf\xc3\xa9"}}));
  EXPECT_EQ(file.entries.size(), 12u);
  const double infinity = std::numeric_limits<double>::infinity(), large = 65504.0;
  const auto expect_floats = [&](const char* name, Dtype dtype, double rounded) {
    SCOPED_TRACE(name);
    const Tensor& tensor = file.entries.at(name);
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(tensor.shape(), (Shape{2, 5}));
    std::vector<double> values = tensor.to_vector<double>();
    EXPECT_TRUE(std::isnan(values.back()));
    EXPECT_TRUE(std::signbit(values[1]));
    values.pop_back();
    EXPECT_EQ(values, (std::vector<double>{0, 0, 1, -2.5, rounded, 0x1p-24, 0x3p-24, infinity, -infinity}));
  };
  expect_floats("float16", float32, large);
  expect_floats("bfloat16", float32, 65536.0);
  expect_floats("float32", float32, large);
  expect_floats("float64", float64, large);
  const auto expect_integers = [&](const char* name, std::int64_t lowest, std::int64_t highest) {
    SCOPED_TRACE(name);
    EXPECT_EQ(file.entries.at(name).dtype(), int64);
    EXPECT_EQ(file.entries.at(name).to_vector<std::int64_t>(), (std::vector<std::int64_t>{lowest, 0, 7, highest}));
  };
  expect_integers("int8", -128, 127);
  expect_integers("int16", -32768, 32767);
  expect_integers("int32", INT32_MIN, INT32_MAX);
  expect_integers("int64", INT64_MIN, INT64_MAX);
  expect_integers("uint8", 0, 255);
  EXPECT_EQ(file.entries.at("bool").dtype(), boolean);
  EXPECT_EQ(file.entries.at("scalar").item(), 3.5);
  EXPECT_EQ(file.entries.at("nothing").shape(), (Shape{0, 3}));
}

/// Looking through all names for each of them would take minutes.
TEST_F(Safetensors, AFileOfManyTensorsIsReadInSeconds) {
  StateDict entries;
  for (int i = 0; i < 200'000; ++i) entries.set("a tensor with a name of some length, number " + std::to_string(i), {});
  EXPECT_TRUE(entries.erase("a tensor with a name of some length, number 0"));
  EXPECT_FALSE(entries.erase("a tensor with a name of some length, number 0"));
  EXPECT_EQ(entries.begin()->name, "a tensor with a name of some length, number 1");
  entries = {};
  const Tensor nothing = zeros({0});
  for (int i = 0; i < 200'000; ++i) entries.set("tensor " + std::to_string(i), nothing);
  save_safetensors(path(), entries);
  const StateDict loaded = load_safetensors(path());
  EXPECT_EQ(loaded.size(), 200'000u);
  EXPECT_EQ(loaded.at("tensor 199999").shape(), Shape{0});
}

TEST_F(Safetensors, UnsignedIntegersKeepTheirValues) {
  write_header(
      R"({"a":{"dtype":"U16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"U32","shape":[1],"data_offsets":[4,8]}})");
  std::ofstream(path(), std::ios::binary | std::ios::app) << "\xff\xff\1\2\xfe\xff\xff\xff";
  EXPECT_EQ(load_safetensors(path()).at("a").to_vector<std::int64_t>(), (std::vector<std::int64_t>{65535, 513}));
  EXPECT_EQ(load_safetensors(path()).at("b").item(), 4294967294.0);
}

TEST_F(Safetensors, LongTensorsAreConvertedInPiecesAndHeldOnce) {
  constexpr std::int64_t kElements = 1'000'001;
  write_header(R"({"w":{"dtype":"I16","shape":[1000001],"data_offsets":[0,2000002]}})");
  std::string data;
  for (std::int64_t i = 0; i < kElements; ++i) data += {static_cast<char>(i % 251), '\1'};
  std::ofstream(path(), std::ios::binary | std::ios::app) << data;
  const std::int64_t before = memory::current();
  memory::reset_peak();
  const Tensor loaded = load_safetensors(path()).at("w");
  EXPECT_LT(memory::peak() - before, kElements * 8 + 100'000);
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 0; i < kElements; ++i) expected.push_back(256 + (i % 251));
  EXPECT_TRUE(loaded.to_vector<std::int64_t>() == expected);
}

TEST_F(Safetensors, PythonsFileIsWrittenAgainByteForByte) {
  const std::string theirs = TAPEGRAD_REFERENCE_DIR "/gpt2.safetensors";
  const AnnotatedStateDict file = load_annotated_safetensors(theirs);
  save_safetensors(path(), file.entries, file.metadata);
  EXPECT_TRUE(read() == read(theirs));
}

TEST_F(Safetensors, EmptyHeaderAndTrailingSpacesAreLegal) {
  write_header("{}      ");
  EXPECT_TRUE(load_safetensors(path()).empty());
  save_safetensors(path(), {});
  EXPECT_TRUE(load_safetensors(path()).empty());
}

TEST_F(Safetensors, HeaderLengthIsNotTrusted) {
  for (std::size_t bytes = 0; bytes < 8; ++bytes) {
    write(std::string(bytes, '\1'));
    expect_refused({"8 bytes"});
  }
  write(std::string(8, '\xff'));
  expect_refused({"18446744073709551615"});
  write(std::string("\xf8\xff\xff\xff\xff\xff\xff\xff", 8) + "{}");
  expect_refused({"length"});
  write(std::string("\x03\0\0\0\0\0\0\0", 8) + "{}");
  expect_refused({"length"});
  write(std::string(8, '\0'));
  expect_refused({"{"});
  write_header(std::string(100'000'001, ' '));
  expect_refused({"100000000"});
}

TEST_F(Safetensors, HeaderMustBeShallowJsonInUtf8) {
  const std::vector<std::string> headers = {" {}",
                                            "[]",
                                            "{",
                                            "{}x",
                                            "{\"a\"",
                                            "{\"a\":1}",
                                            "{\"a\":{\"dtype\":\"F32\"}}",
                                            "{\"\xff\":{}}",
                                            std::string("{}\0", 3),
                                            "{\"a\":" + std::string(100'000, '['),
                                            "{\"a\":{\"shape\":" + std::string(100'000, '['),
                                            "{\"a\":" + std::string(100'000, '{'),
                                            "{\"__metadata__\":{\"a\":1}}",
                                            "{\"__metadata__\":\"a\"}",
                                            "{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}"};
  for (const std::string& header : headers) {
    SCOPED_TRACE(header.substr(0, 40));
    write_header(header);
    expect_refused({});
  }
}

TEST_F(Safetensors, EntriesMustMakeSense) {
  const std::string shape = "\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":";
  expect_entry_refused(shape + "[16,0]", "begin <= end");
  expect_entry_refused(shape + "[8,24]", "begin <= end");
  expect_entry_refused(shape + "[0]", "two numbers");
  expect_entry_refused(shape + "[0,8,16]", "two numbers");
  expect_entry_refused(shape + "[-1,16]", "-1");
  expect_entry_refused(shape + "[0.5,16]", "0.5");
  expect_entry_refused(shape + "[0,1e1]", "1e1");
  expect_entry_refused(shape + "[0,18446744073709551616]", "18446744073709551616");
  expect_entry_refused(shape + "[0,\"16\"]", "string");
  expect_entry_refused(shape + "16", "number");
  expect_entry_refused(shape + "[0,16],\"dtype\":\"F32\"", "twice");
  expect_entry_refused(shape + "[0,16],\"color\":\"red\"", "color");
  expect_entry_refused(shape + "[0,12]", "bytes");
  const std::string offsets = "\"data_offsets\":[0,16],";
  expect_entry_refused(offsets + "\"dtype\":\"F8_E4M3\",\"shape\":[16]", "F8_E4M3");
  expect_entry_refused(offsets + "\"dtype\":\"U64\",\"shape\":[2]", "U64");
  expect_entry_refused(offsets + "\"dtype\":\"BF16\",\"shape\":[16]", "bytes");
  expect_entry_refused(offsets + "\"dtype\":\"F32\",\"shape\":[5]", "bytes");
  expect_entry_refused(offsets + "\"dtype\":\"F32\",\"shape\":[-4]", "-4");
  expect_entry_refused(offsets + "\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,4]", "rank");
  expect_entry_refused(offsets + "\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4]", "2^64");
  expect_entry_refused(offsets + "\"dtype\":\"F32\",\"shape\":[18446744073709551615]", "2^64");
  expect_entry_refused(offsets + "\"dtype\":\"F32\"", "must all be given");
}

TEST_F(Safetensors, RangesMustTileTheData) {
  write_header(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
      12);
  expect_refused({"\"b\"", "overlaps"});
  write_header(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
      12);
  expect_refused({"\"b\"", "hole"});
  write_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5);
  expect_refused({"1 bytes at the end"});
  write_header(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      8);
  expect_refused({"\"a\"", "twice"});
}

TEST_F(Safetensors, BooleansAreZeroOrOne) {
  write_header(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})");
  std::ofstream(path(), std::ios::binary | std::ios::app) << '\2';
  expect_refused({"\"a\"", "got 2"});
}

TEST_F(Safetensors, EveryCutOfAGoodFileIsRefused) {
  save_safetensors(path(), example(), {{"key", "value"}});
  const std::string whole = read();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    EXPECT_THROW(load_safetensors(path()), FileError) << size;
  }
}

TEST_F(Safetensors, DamagedBytesNeverDoMoreThanThrow) {
  save_safetensors(path(), example(), {{"key", "value"}});
  const std::string whole = read();
  for (std::size_t position = 0; position < whole.size(); ++position)
    for (char damage : {'\xff', '9', '"'}) {
      std::string bytes = whole;
      bytes[position] = damage;
      write(bytes);
      try {
        load_safetensors(path());
      } catch (const FileError&) {
      }
    }
}

TEST_F(Safetensors, FilesThatCannotBeReadAreNamed) {
  expect_refused({"No such file"});
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect_refused({"device"});  // at once: nobody will ever write into it
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  expect_refused({"folder"});
}

TEST_F(Safetensors, NamesThatTheFormatCannotHoldAreRefused) {
  EXPECT_THROW(save_safetensors(path(), {{"__metadata__", ones({1})}}), ValueError);
  EXPECT_THROW(save_safetensors(path(), example(), {{"text", std::string(100'000'001, 'x')}}),
               ValueError);  // unreadable
  EXPECT_THROW(save_safetensors(path(), {{"\xff", ones({1})}}), ValueError);
  EXPECT_THROW(save_safetensors(path(), {{"a", ones({1})}}, {{"key", "\xc3"}}), ValueError);
  EXPECT_EQ(files_in_folder(), 0);
}

TEST_F(Safetensors, AFailedSaveLeavesTheOldFileAndNothingElse) {
  save_safetensors(path(), example());
  const std::string old = read();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {4096, before.rlim_max};  // as if the disk were full after 4 KiB
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(save_safetensors(path(), {{"large", zeros({100'000})}}), FileError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read(), old);
  EXPECT_EQ(files_in_folder(), 1);
}

TEST_F(Safetensors, SavingToAFolderThatIsMissingOrInTheWayThrows) {
  EXPECT_THROW(save_safetensors(path("missing/file"), example()), FileError);
  std::filesystem::create_directory(path("taken"));
  EXPECT_THROW(save_safetensors(path("taken"), example()), FileError);
  EXPECT_EQ(files_in_folder(), 1);
}

}  // namespace
}  // namespace tapegrad
