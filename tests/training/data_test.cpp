// Datasets, loaders, windows of text and token files: known batches, seeds, positions, faults.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include <tapegrad/tapegrad.hpp>

#include "error_texts.hpp"

namespace tg = tapegrad;
namespace data = tapegrad::data;
namespace fs = std::filesystem;

namespace {

using Numbers = std::vector<std::int64_t>;

data::TensorDataset counted(std::int64_t rows) {
  return data::TensorDataset({tg::arange(rows), tg::reshape(tg::arange(2 * rows), {rows, 2})});
}
Numbers numbers_of(const tg::Tensor& x) { return x.to_vector<std::int64_t>(); }

/// The first column of so many batches.
std::vector<Numbers> take(data::DataLoader& loader, int count) {
  std::vector<Numbers> batches;
  for (int i = 0; i < count; ++i) batches.push_back(numbers_of(loader.next()[0]));
  return batches;
}
std::vector<Numbers> epoch_of(data::DataLoader& loader) {
  std::vector<Numbers> batches;
  for (const tg::Tensors& batch : loader) batches.push_back(numbers_of(batch[0]));
  return batches;
}

TEST(TensorDataset, RowsOfEachTensor) {
  const tg::Tensors batch = counted(4).get({3, 0, 3});
  EXPECT_EQ(numbers_of(batch[0]), (Numbers{3, 0, 3}));
  EXPECT_EQ(numbers_of(batch[1]), (Numbers{6, 7, 0, 1, 6, 7}));
  EXPECT_EQ(batch[1].shape(), (tg::Shape{3, 2}));
  EXPECT_EQ(counted(4).get({})[1].shape(), (tg::Shape{0, 2}));
  EXPECT_THROW(counted(4).get({4}), tg::IndexError);
  EXPECT_THROW(data::TensorDataset({}), tg::ValueError);
  EXPECT_THROW(data::TensorDataset({tg::tensor(1.0)}), tg::ShapeError);
  expect_contains(error_of([] { data::TensorDataset({tg::ones({3}), tg::ones({2, 3})}); }), "same first size");
  const data::TensorDataset of_parameter({tg::ones({2}).requires_grad_()});
  EXPECT_FALSE(of_parameter.get({0})[0].requires_grad());
}

TEST(DataLoader, BatchesInOrder) {
  data::DataLoader loader(counted(5), {.batch_size = 2});
  const std::vector<Numbers> expected{{0, 1}, {2, 3}, {4}};
  EXPECT_EQ(loader.batches(), 3);
  EXPECT_EQ(epoch_of(loader), expected);
  EXPECT_EQ(epoch_of(loader), expected);
  EXPECT_EQ(loader.epoch(), 2);
  data::DataLoader whole(counted(5), {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(epoch_of(whole), (std::vector<Numbers>{{0, 1}, {2, 3}}));
  data::DataLoader wide(counted(5), {.batch_size = 9});
  EXPECT_EQ(epoch_of(wide), (std::vector<Numbers>{{0, 1, 2, 3, 4}}));
  data::DataLoader one(counted(1), {});
  EXPECT_EQ(epoch_of(one), (std::vector<Numbers>{{0}}));
}

TEST(DataLoader, NothingToLoadIsAnError) {
  expect_contains(error_of([] { data::DataLoader(counted(0), {}); }), "0 rows");
  expect_contains(error_of([] { data::DataLoader(counted(3), {.batch_size = 4, .drop_last = true}); }), "drop_last");
  EXPECT_THROW(data::DataLoader(counted(3), {.batch_size = 0}), tg::ValueError);
  EXPECT_THROW(data::DataLoader(counted(3), {.prefetch = -1}), tg::ValueError);
}

TEST(DataLoader, EachEpochIsAnotherOrderThatFollowsFromTheSeed) {
  std::vector<std::vector<Numbers>> runs;
  for (const auto& [prefetch, threads] : {std::pair{0, 1}, {1, 2}, {7, 2}}) {
    tg::set_num_threads(threads);
    tg::manual_seed(static_cast<std::uint64_t>(prefetch));  // has no influence, and is not touched
    const tg::RandomState before = tg::random_state();
    data::DataLoader loader(counted(20), {.batch_size = 6, .shuffle = true, .seed = 5, .prefetch = prefetch});
    runs.push_back(take(loader, 12));
    EXPECT_EQ(tg::random_state(), before);
  }
  tg::set_num_threads(1);
  EXPECT_EQ(runs[1], runs[0]);
  EXPECT_EQ(runs[2], runs[0]);
  std::set<Numbers> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    Numbers order;
    for (int i = 0; i < 4; ++i) order.insert(order.end(), runs[0][4 * epoch + i].begin(), runs[0][4 * epoch + i].end());
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, numbers_of(tg::arange(20)));
  }
  data::DataLoader other(counted(20), {.batch_size = 20, .shuffle = true, .seed = 6});
  orders.insert(take(other, 1)[0]);
  EXPECT_EQ(orders.size(), 4u);
}

TEST(DataLoader, AResumedStreamEqualsTheUninterruptedOneAtEachPosition) {
  const data::LoaderOptions options{.batch_size = 3, .shuffle = true, .seed = 9};
  data::DataLoader whole(counted(10), options);
  const std::vector<Numbers> expected = take(whole, 13);
  for (int position = 0; position < 13; ++position) {
    data::DataLoader first(counted(10), options);
    take(first, position);
    data::DataLoader resumed(counted(10), options);
    take(resumed, 5);  // what was there before does not matter
    resumed.load_state_dict(first.state_dict());
    EXPECT_EQ(resumed.epoch(), position / 4);
    EXPECT_EQ(resumed.batch(), position % 4);
    EXPECT_EQ(take(resumed, 13 - position), std::vector<Numbers>(expected.begin() + position, expected.end()));
    resumed.seek(position / 4, position % 4);
    EXPECT_EQ(epoch_of(resumed).size(), static_cast<std::size_t>(4 - position % 4));
  }
}

TEST(DataLoader, InsideOfTheLoopThePlaceIsBehindTheBatch) {
  data::DataLoader loader(counted(4), {.batch_size = 2});
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (const tg::Tensors& batch : loader) {
    EXPECT_EQ(batch[0].numel(), 2);
    places.emplace_back(loader.epoch(), loader.batch());
  }
  EXPECT_EQ(places, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1}, {1, 0}}));
}

TEST(DataLoader, ItsPlaceIsPartOfACheckpoint) {
  const std::string path = fs::temp_directory_path() / ("tapegrad-loader-" + std::to_string(::getpid()));
  tg::nn::Linear net(2, 2);
  tg::optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const data::LoaderOptions options{.batch_size = 3, .shuffle = true, .seed = 1};
  data::DataLoader first(counted(10), options), second(counted(10), options);
  take(first, 6);
  tg::save_checkpoint(path, net, optimizer, {.data = first});
  tg::load_checkpoint(path, net, optimizer, {.data = second});
  EXPECT_EQ(take(second, 3), take(first, 3));
  data::DataLoader other(counted(10), {.batch_size = 4, .shuffle = true, .seed = 1});
  take(other, 1);
  expect_contains(error_of([&] { tg::load_checkpoint(path, net, optimizer, {.data = other}); }),
                  "batch_size must be 4, got 3");
  EXPECT_EQ(other.batch(), 1);
  tg::StateDict entries = first.state_dict();
  entries.set("position", tg::tensor(-1));
  expect_contains(error_of([&] { second.load_state_dict(entries); }), "position must be at least 0, got -1");
  entries.erase("position");
  expect_contains(error_of([&] { second.load_state_dict(entries); }), "missing: position");
  EXPECT_THROW(second.seek(-1), tg::ValueError);
  fs::remove(path);
}

/// A dataset of a user's own: it can't be copied, changes its rows at random, and fails once.
struct Noisy {
  explicit Noisy(std::int64_t faulty = -1) : faulty_row(faulty) {}
  Noisy(Noisy&& other) : faulty_row(other.faulty_row), calls(other.calls.load()) {}
  std::int64_t size() const { return 8; }
  tg::Tensors get(const data::Rows& rows) {
    ++calls;
    if (std::find(rows.begin(), rows.end(), faulty_row) != rows.end()) {
      faulty_row = -1;
      throw std::runtime_error("row is unreadable");
    }
    EXPECT_FALSE((tg::ones({1}).requires_grad_() + 1).requires_grad());
    return {tg::randn({static_cast<std::int64_t>(rows.size())})};
  }
  std::int64_t faulty_row;
  std::atomic<int> calls = 0;
};

TEST(DataLoader, RandomChangesOfRowsFollowFromSeedAndBatch) {
  std::vector<tg::Tensor> all;
  for (std::int64_t prefetch : {0, 3}) {
    data::DataLoader loader(Noisy(), {.batch_size = 4, .seed = 3, .prefetch = prefetch});
    loader.seek(0, prefetch == 0 ? 0 : 1);
    all.push_back(loader.next()[0]);
    all.push_back(loader.next()[0]);
  }
  EXPECT_TRUE(tg::equal(all[1], all[2]));
  EXPECT_FALSE(tg::equal(all[0], all[1]));
  EXPECT_FALSE(tg::equal(all[2], all[3]));
}

TEST(DataLoader, WhatTheDatasetThrowsArrivesInTheLoop) {
  for (std::int64_t prefetch : {0, 1, 4}) {
    data::DataLoader loader(Noisy(5), {.batch_size = 2, .prefetch = prefetch});
    int seen = 0;
    try {
      for (const tg::Tensors& batch : loader) seen += batch[0].numel() == 2;
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "row is unreadable");
    }
    EXPECT_EQ(seen, 2);
    EXPECT_EQ(loader.batch(), 2);
    for (const tg::Tensors& batch : loader) seen += batch[0].numel() == 2;  // the same batch again
    EXPECT_EQ(seen, 4);
  }
}

TEST(DataLoader, MayBeDestroyedAtAnyMoment) {
  for (int taken = 0; taken < 30; ++taken) {
    data::DataLoader loader(counted(50), {.batch_size = 1, .prefetch = 1 + taken % 5});
    take(loader, taken);
    if (taken % 3 == 0) loader.seek(0, 7);
    if (taken % 6 == 0) {
      EXPECT_EQ(take(loader, 1)[0], Numbers{7});
    }
  }
}

/// The thread that makes batches ahead stays with the parent: the child goes on with one of its own.
TEST(DataLoader, GoesOnInAForkedChild) {
  const data::LoaderOptions options{.batch_size = 2, .shuffle = true, .seed = 3, .prefetch = 3};
  data::DataLoader whole(counted(9), options);
  const std::vector<Numbers> expected = take(whole, 40);
  auto loader = std::make_unique<data::DataLoader>(counted(9), options);
  take(*loader, 12);
  auto idle = std::make_unique<data::DataLoader>(counted(9), options),
       sought = std::make_unique<data::DataLoader>(counted(9), options);
  take(*idle, 1), take(*sought, 1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  const auto goes_on = [&] { return take(*loader, 28) == std::vector<Numbers>(expected.begin() + 12, expected.end()); };
  if (child == 0) {
    alarm(30);  // a child that hangs is killed
    bool right = false;
    try {
      sought->seek(0, 3);
      right = goes_on() && take(*sought, 1)[0] == expected[3];
      loader.reset(), idle.reset(), sought.reset();
    } catch (...) {
      right = false;
    }
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "the child was killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(goes_on());
}

TEST(TextWindows, AreWindowsOfTheText) {
  Numbers text(50);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int64_t>(i);
  data::TextWindows windows(text, {.batch_size = 64, .context = 8, .seed = 1});
  const data::TextBatch batch = windows.next();
  ASSERT_EQ(batch.ids.shape(), (tg::Shape{64, 8}));
  EXPECT_TRUE(tg::equal(batch.ids + 1, batch.targets));
  EXPECT_TRUE(tg::equal(batch.ids.slice(1, 0, 7) + 1, batch.ids.slice(1, 1, 8)));
  std::set<std::int64_t> starts;
  for (int i = 0; i < 50; ++i)
    for (std::int64_t start : numbers_of(windows.next().ids.slice(1, 0, 1).contiguous())) starts.insert(start);
  EXPECT_EQ(starts.size(), 42u);  // 0 ... 41: all places, and no others
  EXPECT_EQ(*starts.rbegin(), 41);
  EXPECT_EQ(windows.position(), 51);
}

TEST(TextWindows, TheSmallestText) {
  data::TextWindows windows(Numbers{7, 8}, {});
  const data::TextBatch batch = windows.next();
  EXPECT_EQ(batch.ids.item(), 7);
  EXPECT_EQ(batch.targets.item(), 8);
  expect_contains(error_of([] { data::TextWindows(Numbers{7}, {}); }), "1 tokens");
  EXPECT_THROW(data::TextWindows(Numbers{}, {}), tg::ValueError);
  EXPECT_THROW(data::TextWindows(Numbers{1, 2, 3}, {.context = 3}), tg::ValueError);
  EXPECT_THROW(data::TextWindows(Numbers{1, 2, 3}, {.context = 0}), tg::ValueError);
  EXPECT_THROW(data::TextWindows(Numbers{1, 2, 3}, {.batch_size = 0}), tg::ValueError);
}

TEST(TextWindows, ResumeAtEachPosition) {
  const data::Tokens text(numbers_of(tg::randint(0, 100, {200})));
  const data::TextWindowsOptions options{.batch_size = 2, .context = 4, .seed = 11};
  data::TextWindows whole(text, options);
  for (std::int64_t position = 0; position < 6; ++position) {
    data::TextWindows resumed(text, {.batch_size = 2, .context = 4, .seed = 11, .prefetch = 0});
    resumed.load_state_dict(whole.state_dict());
    const data::TextBatch expected = whole.next(), batch = resumed.next();
    EXPECT_TRUE(tg::equal(batch.ids, expected.ids));
    EXPECT_TRUE(tg::equal(batch.targets, expected.targets));
  }
  data::TextWindows other(text, {.batch_size = 2, .context = 4, .seed = 12});
  expect_contains(error_of([&] { other.load_state_dict(whole.state_dict()); }), "seed must be 12, got 11");
}

TEST(TextBlocks, CutTheTextIntoWindows) {
  const data::TextBlocks blocks(Numbers{0, 1, 2, 3, 4, 5, 6, 7}, 3);
  EXPECT_EQ(blocks.size(), 2);
  data::DataLoader loader(blocks, {.batch_size = 2});
  const tg::Tensors batch = loader.next();
  EXPECT_EQ(numbers_of(batch[0]), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(numbers_of(batch[1]), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(data::TextBlocks(Numbers{0, 1, 2, 3, 4, 5, 6}, 3).size(), 2);
  EXPECT_EQ(data::TextBlocks(Numbers{0, 1, 2, 3, 4, 5}, 3).size(), 1);
  EXPECT_EQ(data::TextBlocks(Numbers{}, 3).size(), 0);
  EXPECT_THROW(data::TextBlocks(Numbers{1}, 0), tg::ValueError);
}

class TokenFile : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove(path_); }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string error_of_bytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return error_of([&] { data::Tokens::open(path_); });
  }
  static Numbers all(const data::Tokens& tokens) {
    Numbers numbers(static_cast<std::size_t>(tokens.size()));
    tokens.copy(0, numbers);
    return numbers;
  }
  std::string path_ = fs::temp_directory_path() / ("tapegrad-tokens-" + std::to_string(::getpid()));
};

TEST_F(TokenFile, RoundTripInTwoAndFourBytes) {
  const Numbers numbers{0, 65535, 3, 7, 1};
  for (const auto& [vocabulary, size] : {std::pair<std::int64_t, std::size_t>{65536, 42}, {65537, 52}}) {
    data::write_tokens(path_, vocabulary, numbers);
    EXPECT_EQ(bytes().size(), size);
    const data::Tokens tokens = data::Tokens::open(path_);
    EXPECT_EQ(all(tokens), numbers);
    EXPECT_EQ(all(tokens.slice(1, 4).slice(1, 3)), (Numbers{3, 7}));
    fs::remove(path_);
    EXPECT_EQ(all(tokens), numbers);  // what is mapped stays
  }
  EXPECT_EQ(all(data::Tokens(numbers).slice(3, 5)), (Numbers{7, 1}));
  data::write_tokens(path_, std::int64_t{1} << 32, Numbers{4294967295});
  EXPECT_EQ(all(data::Tokens::open(path_)), (Numbers{4294967295}));
  data::write_tokens(path_, 1, Numbers{});
  EXPECT_EQ(data::Tokens::open(path_).size(), 0);
}

TEST_F(TokenFile, PieceByPieceEqualsAtOnce) {
  Numbers numbers;
  for (std::int64_t i = 0; i < 2'500'000; ++i) numbers.push_back(i % 321);
  data::write_tokens(path_, 321, numbers);
  const std::string at_once = bytes();
  std::int64_t next = 0;
  data::write_tokens(path_, 321, [&] {
    const std::int64_t end = std::min<std::int64_t>(next + 999'999, 2'500'000);
    const Numbers piece(numbers.begin() + next, numbers.begin() + end);
    next = end;
    return piece;
  });
  EXPECT_EQ(bytes(), at_once);
  data::TextWindows of_file(data::Tokens::open(path_), {.context = 50, .seed = 4}),
      in_memory(numbers, {.context = 50, .seed = 4});
  EXPECT_TRUE(tg::equal(of_file.next().targets, in_memory.next().targets));
}

TEST_F(TokenFile, WrongTokensAndPlaces) {
  data::write_tokens(path_, 10, Numbers{9});
  const std::string before = bytes();
  expect_contains(error_of([&] { data::write_tokens(path_, 10, Numbers{1, 10}); }), "from 0 to 9; got 10 at 1");
  EXPECT_THROW(data::write_tokens(path_, 10, Numbers{-1}), tg::IndexError);
  EXPECT_THROW(data::write_tokens(path_, 0, Numbers{}), tg::ValueError);
  EXPECT_EQ(bytes(), before);
  EXPECT_THROW(data::write_tokens("/missing-folder/tokens", 10, Numbers{}), tg::FileError);
  const data::Tokens tokens(Numbers{1, 2, 3});
  Numbers out(2);
  EXPECT_THROW(tokens.copy(2, out), tg::IndexError);
  EXPECT_THROW(tokens.copy(-1, out), tg::IndexError);
  EXPECT_THROW(tokens.slice(0, 2).copy(1, out), tg::IndexError);
  EXPECT_THROW(tokens.slice(2, 1), tg::IndexError);
  EXPECT_THROW(tokens.slice(0, 4), tg::IndexError);
  expect_contains(error_of([&] { data::text_batch(tokens, {2}, 1); }), "Tokens::copy");
}

TEST_F(TokenFile, DamagedFilesAreRefused) {
  data::write_tokens(path_, 10, Numbers{1, 2, 3, 4});
  const std::string good = bytes();
  for (std::size_t size = 0; size < good.size(); ++size) expect_contains(error_of_bytes(good.substr(0, size)), path_);
  expect_contains(error_of_bytes(good + "x"), "damaged");
  for (std::size_t at : {0, 7, 8, 12, 23, 32, 39}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    expect_contains(error_of_bytes(bad), path_);
  }
  std::string outside = good;
  outside[26] = 10;
  EXPECT_EQ(error_of_bytes(outside), "nothing was thrown");
  expect_contains(error_of([&] { all(data::Tokens::open(path_)); }), "below 10, its vocabulary; got 10 at 1");
  fs::remove(path_);
  expect_contains(error_of([&] { data::Tokens::open(path_); }), "No such file");
  expect_contains(error_of([&] { data::Tokens::open(fs::temp_directory_path()); }), "folder");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);  // nobody writes to it: waiting would be for ever
  expect_contains(error_of([&] { data::Tokens::open(path_); }), "must be a file");
}

}  // namespace
