// .npy files: what is written is read again, by xtensor too; what can't be trusted is refused.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tapegrad/xtensor.hpp>
#include <xtensor/xnpy.hpp>

#include "autograd/expectations.hpp"

namespace tapegrad {
namespace {

using namespace expectations;
namespace fs = std::filesystem;

class Npy : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              (std::string("tapegrad-npy-") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    path_ = (folder_ / "x.npy").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// A file of version 1 with this header and these bytes after it.
  void write_with(const std::string& header, const std::string& data) const {
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes.push_back(static_cast<char>(header.size() % 256));
    bytes.push_back(static_cast<char>(header.size() / 256));
    write(bytes + header + data);
  }
  void expect_refused(const std::string& part) const {
    expect_throws<FileError>([&] { load_npy(path_); }, {"load_npy: '" + path_ + "': ", part});
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(Npy, WhatIsWrittenIsRead) {
  const Tensor base = randn({2, 3, 4});
  for (const Tensor& x :
       {base, base.to(float64), tensor<std::int64_t>({1, -2, std::int64_t{1} << 60}), tensor({true, false}),
        tensor(2.5), zeros({0, 3}), transpose(base, 0, 2), expand(ones({1, 2}), {3, 2}), slice(base, 1, 0, 3, 2),
        from_vector(Values{kNaN, kInf, -0.0}, {3}, float64), zeros({1, 1, 1, 1, 1, 1, 1, 2}),
        zeros({1000000, 10000000, 0, 1000000, 9999999, 1000000})}) {
    save_npy(path_, x);
    const Tensor read = load_npy(path_);
    EXPECT_EQ(read.shape(), x.shape());
    EXPECT_EQ(read.dtype(), x.dtype());
    EXPECT_EQ(bytes_of(read), bytes_of(x));
    EXPECT_EQ((content().size() - static_cast<std::size_t>(x.numel() * size_of(x.dtype()))) % 64, 0U);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);  // nothing is left beside it
}

TEST_F(Npy, TheBytesAreNumPys) {
  save_npy(path_, tensor({{1, 2, 3}}));
  const std::string bytes = content();
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes.substr(10, 60), "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 3), } ");
  EXPECT_EQ(bytes[127], '\n');
  EXPECT_EQ(bytes.size(), 128U + 24U);
  save_npy(path_, tensor({1.0}));
  EXPECT_NE(content().find("'shape': (1,), }"), std::string::npos);
  save_npy(path_, tensor(1.0));
  EXPECT_NE(content().find("'shape': (), }"), std::string::npos);
}

TEST_F(Npy, XtensorReadsAndWritesTheSame) {
  const Tensor x = randn({3, 5}, float64);
  save_npy(path_, x);
  EXPECT_EQ(bytes_of(from_xtensor(xt::load_npy<double>(path_))), bytes_of(x));
  const xt::xarray<float> values = {{1.5F, 2.5F}, {3.5F, 4.5F}};
  xt::dump_npy(path_, values);
  EXPECT_TRUE(equal(load_npy(path_), tensor({{1.5, 2.5}, {3.5, 4.5}})));
}

TEST_F(Npy, AnyOrderOfKeysAndOfElements) {
  const std::string data("\0\1\1\0\0\1", 6);
  write_with("{'shape':(2,3),'fortran_order':True,'descr':'|b1'}\n", data);
  EXPECT_TRUE(equal(load_npy(path_), tensor({{false, true, false}, {true, false, true}})));
  write_with("{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }\n", data);
  EXPECT_TRUE(equal(load_npy(path_), tensor({{false, true, true}, {false, false, true}})));
}

/// Bytes by NumPy 1.24's astype(...).tobytes().
TEST_F(Npy, SmallerNumbersAreWidened) {
  const auto read = [&](const std::string& descr, const std::string& data, bool fortran = false) {
    write_with("{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (2, 2), }",
               data);
    return load_npy(path_);
  };
  using Integers = std::vector<std::int64_t>;
  const auto expect_integers = [](const Tensor& x, const Integers& values) {
    EXPECT_EQ(x.dtype(), int64);
    EXPECT_EQ(x.to_vector<std::int64_t>(), values);
  };
  expect_integers(read("|i1", {"\x80\xff\x00\x7f", 4}), {-128, -1, 0, 127});
  expect_integers(read("|i1", {"\x80\xff\x00\x7f", 4}, true), {-128, 0, -1, 127});
  expect_integers(read("|u1", {"\x80\xff\x00\x7f", 4}), {128, 255, 0, 127});
  expect_integers(read("<i2", {"\x00\x80\xff\xff\x00\x00\xff\x7f", 8}), {-32768, -1, 0, 32767});
  expect_integers(read("<u2", {"\x00\x80\xff\xff\x00\x00\xff\x7f", 8}), {32768, 65535, 0, 32767});
  const std::string four("\x00\x00\x00\x80\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\x7f", 16);
  expect_integers(read("<i4", four), {-2147483648, -1, 0, 2147483647});
  expect_integers(read("<u4", four), {2147483648, 4294967295, 0, 2147483647});
  const Tensor half = read("<f2", {"\x00\x3e\x00\xfc\x01\x00\x00\x80", 8});
  EXPECT_EQ(half.dtype(), float32);
  EXPECT_EQ(bytes_of(half), bytes_of(tensor({{1.5, -kInf}, {std::ldexp(1.0, -24), -0.0}})));

  const std::int64_t count = 100001;  // several pieces
  std::string data;
  for (std::int64_t i = 0; i < count; ++i) data += {static_cast<char>(i % 256), static_cast<char>(i / 256 % 128)};
  write_with("{'descr': '<i2', 'fortran_order': False, 'shape': (100001,), }", data);
  const Tensor many = load_npy(path_), counted = arange(count);
  EXPECT_TRUE(equal(many, counted - 32768 * floor(counted / 32768.0).to(int64)));

  for (const char* descr : {"<u8", "<c8", "<f16", ">i4", "<i1", "<M8[s]"}) {
    write_with(std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (0,), }", "");
    expect_refused(std::string("got ") + descr);
  }
  write_with("{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }", "123");
  expect_refused("dtype U16 must fill the file after its header exactly; got 3 bytes");
}

TEST_F(Npy, DamageIsRefused) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", data(8, '\0');
  write_with(good, data);
  EXPECT_EQ(load_npy(path_).shape(), (Shape{2}));
  const std::string whole = content();
  for (std::size_t length = 0; length < whole.size(); ++length) {  // cut anywhere
    write(whole.substr(0, length));
    EXPECT_THROW(load_npy(path_), FileError) << length;
  }
  for (std::size_t i = 0; i < whole.size() - data.size(); ++i)  // one byte changed: an error or an array, no more
    for (const char c : {'\0', '\xff', '(', '9', '\''}) {
      std::string changed = whole;
      changed[i] = c;
      write(changed);
      try {
        EXPECT_LE(load_npy(path_).numel(), 2);
      } catch (const FileError&) {
      }
    }
  write_with(good, data + "x");
  expect_refused("must fill the file after its header exactly; got 9 bytes");
  write("PK\x03\x04 something else");
  expect_refused("must begin with");
  write("");
  expect_refused("ends within the first 8 bytes");
  write_with("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", "\x02");
  expect_refused("booleans must be 0 or 1");
}

TEST_F(Npy, HostileHeadersAreRefusedWithoutMemory) {
  memory::reset_peak();
  const std::int64_t before = memory::peak();
  const auto refuse = [&](const std::string& header, const std::string& part) {
    write_with(header, "12345678");
    expect_refused(part);
  };
  const std::string start = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  refuse(start + "(4000000000000,), }", "must fill the file");
  refuse(start + "(4294967296, 4294967296), }", "must fill the file");
  refuse(start + "(9223372036854775807, 2), }", "must fill the file");
  refuse(start + "(4611686018427387906,), }", "must fill the file");  // 4 times that is 8 more than 2^64
  refuse(start + "(99999999999999999999,), }", "must fit into 64 bits");
  refuse(start + "(-2,), }", "expected a size");
  refuse(start + "(2.0,), }", "expected ',' or ')'");
  refuse(start + "(1, 1, 1, 1, 1, 1, 1, 1, 2), }", "at most 8 dimensions");
  refuse(start + std::string(60000, '('), "expected a size");
  refuse(start + "(2,), 'shape': (2,), }", "each once");
  refuse(start + "(2,), 'more': 1}", "each once");
  refuse(start + "(2,)} x", "expected nothing after");
  refuse("{'descr': '<f4', 'shape': (2,)}", "must all be there");
  refuse("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", "got >f4");
  refuse("{'descr': '|O\x1b', 'fortran_order': False, 'shape': (2,)}", "got |O?");
  refuse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "not records");
  refuse("{'descr': '<f4', 'fortran_order': maybe, 'shape': (2,)}", "True or False");
  refuse("[1, 2]", "expected '{'");
  refuse("", "expected '{'");
  write(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13));
  expect_refused("at most 65536 bytes; got 4294967295");
  write(std::string("\x93NUMPY\x07\x00\x01\x00{", 11));
  expect_refused("version from 1 to 3");
  EXPECT_EQ(memory::peak(), before);
}

TEST_F(Npy, PathsThatAreNoFiles) {
  expect_refused("No such file");
  expect_throws<FileError>([&] { load_npy(folder_.string()); }, {"a folder or a device"});
  expect_throws<FileError>([&] { save_npy((folder_ / "none" / "x.npy").string(), ones({2})); }, {"save_npy", "none"});
  expect_throws<Error>([&] { save_npy(path_, {}); }, {});
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace tapegrad
